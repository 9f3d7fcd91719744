// PythonNames: reads the names of a Python frame, now or as they were when an op was made.
#include "debug/expr/python_names.h"

#include <algorithm>
#include <atomic>

#include "debug/agent.h"
#include "debug/plans/made_by.h"

namespace opstep {
namespace {

std::atomic<PythonNamesReader> reader{nullptr};
std::atomic<SameModel> same_model{nullptr};

std::vector<PythonName> Names(const Plan& plan, const proto::OpDesc& op, size_t frames,
                              bool after) {
  std::vector<PythonName> names;
  for (NameAt& at : NamesAt(plan, op, frames, after)) {
    PythonName& name =
        names.emplace_back(PythonName{std::move(at.name), plan.program_id, std::move(at.variable)});
    name.line = at.line;
    name.other = name.variable.empty();
    name.known = at.known;
  }
  return names;
}

// Is it the frame of the op's stack, counted from the innermost?
bool Is(const SourceFrame& running, const Plan& plan, const proto::OpDesc& op, size_t frame) {
  if (frame >= static_cast<size_t>(op.stack_size())) return true;
  const proto::ProgramDesc& desc = plan.desc;
  const proto::CodeFrame& made = desc.frames(static_cast<int>(op.stack(static_cast<int>(frame))));
  return running.line == made.line() &&
         running.file == desc.strings(static_cast<int>(made.file())) &&
         running.function == desc.strings(static_cast<int>(made.function()));
}

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
    return read ? read(frame, of == Of::kVariablesAndValues).names : std::vector<PythonName>();
  });
}

PythonNames PythonNames::RunningAt(const Plan& plan, const proto::OpDesc& op, size_t frame, Of of) {
  return PythonNames([&plan, &op, frame, of]() -> std::vector<PythonName> {
    const PythonNamesReader read = reader.load();
    if (!read) return {};
    PythonFrame running = read(frame, of == Of::kVariablesAndValues);
    if (Is(running.at, plan, op, frame)) return std::move(running.names);
    const auto frames = static_cast<size_t>(op.stack_size());
    return Names(plan, op, frames - std::min(frame, frames), false);
  });
}

PythonNames PythonNames::Made(const Plan& plan, const proto::OpDesc& op, size_t frames,
                              bool after) {
  return PythonNames([&plan, &op, frames, after] { return Names(plan, op, frames, after); });
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
