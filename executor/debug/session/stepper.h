// Position of a thread in a run, and Stepper, which decides where a step ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "debug/plans/made_by.h"

namespace opstep {

enum class StepMode : uint8_t { kNone, kOver, kInto, kOut, kIteration, kRun };
enum class StepUnit : uint8_t { kOp, kLine };

// The position of a thread: before an op, or after it.
struct Position {
  uint64_t run = 0;  // counts the runs of the thread
  int depth = 0;     // of the block, 0 for block 0
  int block = 0;
  uint64_t iteration = 0;
  // The op only saves a value for the gradient: a step by lines skips it.
  bool quiet = false;
  // In imperative mode, where each op is a separate run: the op's id, else 0.
  uint32_t call = 0;
  // The Python calls that made the op, outermost first, and how many of them, from the outermost,
  // the thread is in: a step into them enters the others. As with functions inlined by a compiler,
  // no op runs between two of them.
  std::shared_ptr<const MadeBy> made = {};
  size_t shown = 0;
  // The number of these calls around all of the block's ops: a step does not leave them.
  size_t base = 0;
  // The number of these calls that also made the block's next op.
  size_t goes_on = 0;
};

// Decides at each op of a thread whether a step ends there. Steps count ops that are about to run,
// so the same rule holds whether the thread stopped before an op or after it.
class Stepper {
 public:
  // `block`: of kInto, the one block to enter; 0: any.
  void Start(StepMode mode, StepUnit unit, const Position& from, int block = 0);
  void Cancel() { mode_ = StepMode::kNone; }
  bool active() const { return mode_ != StepMode::kNone; }
  // Before the op.
  bool EndsAt(const Position& at) const;
  // After it: a step out of a function goes to the line that called it, and the function's values
  // exist.
  bool EndsAfter(const Position& at) const;
  // At a stop where the step has ended: see Position.
  size_t ShownAt(const Position& at) const;
  // Any op may end it.
  bool EveryOp(uint64_t run) const { return active() && !EndsWithRun(run); }
  // … also after any op.
  bool AfterEveryOp() const { return LeavesFunction() && !from_.call; }
  // It ends after the last op of this run, and at no other op of it.
  bool EndsWithRun(uint64_t run) const {
    return mode_ == StepMode::kRun && run == from_.run && !from_.call;
  }
  // It ends after the run's last op: it began in a block that this op ran, and no later op remains
  // to stop at.
  bool EndsAfterLast(uint64_t run) const {
    return EndsWithRun(run) || (active() && run == from_.run && from_.depth > 0);
  }

 private:
  bool LeavesFunction() const {
    return mode_ == StepMode::kOut && unit_ == StepUnit::kLine && from_.shown > from_.base;
  }
  // Is the op in the same calls as this many outer frames?
  bool Within(const Position& at, size_t frames) const;
  bool EndsAtCall(const Position& at) const;

  StepMode mode_ = StepMode::kNone;
  StepUnit unit_ = StepUnit::kOp;
  Position from_;
  int block_ = 0;
};

}  // namespace opstep
