// FaultWatch: looks for NaN, Inf and overflow around each watched op of one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

#include "debug/faults/fault_search.h"
#include "debug/plans/bound_plans.h"
#include "runtime/hook.h"

namespace opstep {

// Belongs to one of the user's threads; no other thread touches it, and it needs no lock.
class FaultWatch {
 public:
  // A run of a plan begins.
  void StartRun(uint64_t plan_id);
  // The thread stops: values may be edited.
  void Stopped() { clean_.clear(); }
  // Before an op that overwrites an input, and after the thread has stopped there.
  void BeforeOp(const FrameView& frame, const std::shared_ptr<const OpWork>& work);
  // The fault that the op has just made, if a filter asks for it.
  std::optional<Finding> AfterOp(const FrameView& frame, const std::shared_ptr<const OpWork>& work);

 private:
  // Bad values in the inputs that an op overwrites.
  std::unordered_map<const Instruction*, BadNumbers> before_;
  // Ops of the latest plan that left nothing bad in an input that they overwrote, and in which run
  // of the program: the next run need not check again. Python may write to a variable in between;
  // its bad values are then reported at the op that writes it next.
  struct Clean {
    std::shared_ptr<const OpWork> work;
    uint64_t step;
  };
  std::unordered_map<const Instruction*, Clean> clean_;
  uint64_t latest_plan_ = 0;
};

}  // namespace opstep
