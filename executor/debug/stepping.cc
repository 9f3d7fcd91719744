#include "debug/stepping.h"

namespace opstep {

void Stepper::Start(StepMode mode, StepUnit unit, const Position& from, int block) {
  mode_ = mode;
  unit_ = unit;
  from_ = from;
  block_ = block;
}

// From one op in imperative mode to another one: steps are those of Python's own debuggers.
bool Stepper::EndsAtCall(const Position& at) const {
  const size_t depth = from_.entries.size();
  // Is it still in what the outer lines of the stack began?
  const auto within = [&](size_t lines) {
    return lines > 0 && at.entries.size() >= lines &&
           at.entries[lines - 1] == from_.entries[lines - 1];
  };
  // Out of the function, and through all that other programs do meanwhile.
  if (mode_ == StepMode::kOut || mode_ == StepMode::kRun)
    return at.call && depth > 1 && (!within(depth - 1) || at.entries.size() < depth);
  if (mode_ == StepMode::kIteration) return at.call == from_.call;
  if (!at.call || unit_ == StepUnit::kOp) return true;
  return mode_ == StepMode::kOver ? !within(depth) : at.entries != from_.entries;
}

bool Stepper::EndsAt(const Position& at) const {
  if (!active()) return false;
  // The run ended under the step: it ends at the first op of the next one, whatever program that
  // is.
  if (at.run != from_.run) return !from_.call || EndsAtCall(at);
  switch (mode_) {
    case StepMode::kOut:
      return at.depth < from_.depth && !at.quiet;
    case StepMode::kOver:
      if (at.depth > from_.depth) return false;
      break;
    case StepMode::kInto:
      if (block_ && at.depth > from_.depth && at.block != block_) return false;
      break;
    case StepMode::kIteration:
      if (at.quiet || at.depth > from_.depth) return false;
      return at.depth < from_.depth || at.iteration != from_.iteration;
    case StepMode::kRun:
      return false;
    case StepMode::kNone:
      break;
  }
  if (unit_ == StepUnit::kOp) return true;
  if (at.quiet) return false;
  // Going down into a body, up out of it, or around it once more leaves the line even if every
  // op there was made on it.
  return at.line != from_.line || at.depth != from_.depth || at.block != from_.block ||
         at.iteration != from_.iteration;
}

}  // namespace opstep
