#include "debug/python_names.h"

#include <atomic>

#include "debug/agent.h"
#include "debug/made_by.h"

namespace opstep {
namespace {

std::atomic<PythonNamesReader> reader{nullptr};
std::atomic<SameModel> same_model{nullptr};

}  // namespace

void SetSameModel(SameModel same) { same_model.store(same); }

bool IsSameModel(uint32_t program, uint32_t other) {
  const SameModel same = same_model.load();
  return program == other || (same && same(program, other));
}

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
    for (NameAt& at : NamesAt(plan, op, frames, after)) {
      names.push_back({std::move(at.name), plan.program_id, std::move(at.variable)});
      names.back().line = at.line;
      names.back().other = names.back().variable.empty();
    }
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
