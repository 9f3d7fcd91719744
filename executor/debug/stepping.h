#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opstep {

enum class StepMode : uint8_t { kNone, kOver, kInto, kOut, kIteration, kRun };
enum class StepUnit : uint8_t { kOp, kLine };

// Where a thread stands: before an op, or after it.
struct Position {
  uint64_t run = 0;  // counts the runs of the thread
  int depth = 0;     // of the block, 0 for block 0
  int block = 0;
  uint64_t iteration = 0;
  uint32_t line = 0;  // the user's line that made the op, as a number; forward and gradient differ
  // The op only saves a value for the gradient: nothing to see for one who goes line by line.
  bool quiet = false;
  // Of an op in imperative mode, which is a run of its own: its id, else 0, and the user's lines
  // that it was called in, outermost first, with a number for each entry (see CallPath).
  uint32_t call = 0;
  std::vector<uint64_t> entries = {};
};

// Decides at each op of a thread whether a step ends there. Steps count ops that are about to run,
// so the same rule holds whether the thread stood before an op or after it.
class Stepper {
 public:
  // `block`: of kInto, the one block that is meant; 0: any.
  void Start(StepMode mode, StepUnit unit, const Position& from, int block = 0);
  void Cancel() { mode_ = StepMode::kNone; }
  bool active() const { return mode_ != StepMode::kNone; }
  bool EndsAt(const Position& at) const;
  // Any op may end it.
  bool EveryOp(uint64_t run) const { return active() && !EndsWithRun(run); }
  // It ends after the last op of this run, and at no other op of it.
  bool EndsWithRun(uint64_t run) const {
    return mode_ == StepMode::kRun && run == from_.run && !from_.call;
  }
  // It ends after the run's last op, whatever it is: it began in a block that this op ran, and
  // there is nothing behind it to stop at.
  bool EndsAfterLast(uint64_t run) const {
    return EndsWithRun(run) || (active() && run == from_.run && from_.depth > 0);
  }

 private:
  bool EndsAtCall(const Position& at) const;

  StepMode mode_ = StepMode::kNone;
  StepUnit unit_ = StepUnit::kOp;
  Position from_;
  int block_ = 0;
};

}  // namespace opstep
