#include "debug/python_names.h"

#include <atomic>

#include "debug/agent.h"
#include "debug/made_by.h"

namespace opstep {
namespace {

std::atomic<PythonNamesReader> reader{nullptr};

}  // namespace

void SetPythonNames(PythonNamesReader read) { reader.store(read); }

PythonNames PythonNames::Running(size_t frame, Of of) {
  return PythonNames([frame, of]() -> std::vector<PythonName> {
    const PythonNamesReader read = reader.load();
    return read ? read(frame, of == Of::kVariablesAndValues) : std::vector<PythonName>();
  });
}

PythonNames PythonNames::Made(const Plan& plan, const proto::OpDesc& op, size_t frames,
                              bool after) {
  return PythonNames([&plan, &op, frames, after] {
    std::vector<PythonName> names;
    for (auto& [name, variable] : NamesAt(plan, op, frames, after))
      names.push_back({name, plan.program_id, variable});
    return names;
  });
}

void PythonNames::Read() const {
  if (read_) return;
  read_ = true;
  names_ = reader_();
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
