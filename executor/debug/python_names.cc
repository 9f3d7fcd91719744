#include "debug/python_names.h"

#include <atomic>

#include "debug/agent.h"

namespace opstep {
namespace {

std::atomic<PythonNamesReader> reader{nullptr};

}  // namespace

void SetPythonNames(PythonNamesReader read) { reader.store(read); }

void PythonNames::Read() const {
  if (read_) return;
  read_ = true;
  if (const PythonNamesReader read = reader.load()) names_ = read(of_ == Of::kVariablesAndValues);
}

const std::vector<PythonName>& PythonNames::all() const {
  Read();
  return names_;
}

const PythonName* PythonNames::Find(uint32_t program, const std::string& name) const {
  const PythonName* found = nullptr;
  for (const PythonName& known : all()) {
    if (known.name != name) continue;
    if (known.program == program) return &known;
    if (!found) found = &known;
  }
  return found;
}

}  // namespace opstep
