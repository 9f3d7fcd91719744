// FaultWatch: the bad values before an op and after it, and the ops that need no check.
#include "debug/faults/fault_watch.h"

#include <utility>

namespace opstep {

void FaultWatch::StartRun(uint64_t plan_id) {
  before_.clear();
  if (std::exchange(latest_plan_, plan_id) != plan_id) clean_.clear();
}

void FaultWatch::BeforeOp(const FrameView& frame, const std::shared_ptr<const OpWork>& work) {
  if (work->faults.empty()) return;
  const Instruction* instruction = frame.top().instruction;
  const auto clean = clean_.find(instruction);
  const bool known =
      clean != clean_.end() && clean->second.work == work && clean->second.step + 1 == frame.step();
  before_[instruction] = known ? BadNumbers{.assumed = true} : LookAtRewritten(frame, work->faults);
}

std::optional<Finding> FaultWatch::AfterOp(const FrameView& frame,
                                           const std::shared_ptr<const OpWork>& work) {
  if (work->faults.empty()) return std::nullopt;
  const Instruction* instruction = frame.top().instruction;
  const auto before = before_.extract(instruction);
  bool clean = false;
  auto found = FindMade(frame, work->faults, before ? before.mapped() : BadNumbers{}, &clean);
  if (before && clean) {
    clean_[instruction] = {work, frame.step()};
  } else if (before) {
    clean_.erase(instruction);
  }
  return found;
}

}  // namespace opstep
