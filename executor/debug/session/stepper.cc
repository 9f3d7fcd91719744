// Stepper: where a step over, into or out of something ends.
#include "debug/session/stepper.h"

#include <algorithm>

namespace opstep {
namespace {

const MadeBy& Made(const Position& at) {
  static const MadeBy kNone;
  return at.made ? *at.made : kNone;
}

// Is the op in the same call as this frame of the other op?
bool InCall(const Position& at, const Position& other, size_t frames) {
  return frames > 0 && Made(at).size() >= frames && Made(other).size() >= frames &&
         Made(at)[frames - 1].call == Made(other)[frames - 1].call;
}

}  // namespace

void Stepper::Start(StepMode mode, StepUnit unit, const Position& from, int block) {
  mode_ = mode;
  unit_ = unit;
  from_ = from;
  block_ = block;
}

bool Stepper::Within(const Position& at, size_t frames) const {
  return frames > 0 && Made(at).size() >= frames && Made(from_).size() >= frames &&
         Made(at)[frames - 1] == Made(from_)[frames - 1];
}

// From one op in imperative mode to another: steps work as in Python's debuggers.
bool Stepper::EndsAtCall(const Position& at) const {
  // Out of the function, and past all runs of other programs meanwhile.
  if (mode_ == StepMode::kOut || mode_ == StepMode::kRun)
    return at.call && from_.shown > 1 && !InCall(at, from_, from_.shown);
  if (mode_ == StepMode::kIteration) return at.call == from_.call;
  if (!at.call || unit_ == StepUnit::kOp) return true;
  return mode_ == StepMode::kOver ? !Within(at, from_.shown) : Made(at) != Made(from_);
}

bool Stepper::EndsAt(const Position& at) const {
  if (!active()) return false;
  // The run ended under the step: it ends at the first op of the next run of any program.
  if (at.run != from_.run) return !from_.call || EndsAtCall(at);
  switch (mode_) {
    case StepMode::kOut:
      if (at.quiet || at.depth > from_.depth) return false;
      return LeavesFunction() ? !InCall(at, from_, from_.shown) : at.depth < from_.depth;
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
  if (at.depth != from_.depth || at.block != from_.block || at.iteration != from_.iteration)
    return true;
  return mode_ == StepMode::kOver ? !Within(at, from_.shown) : Made(at) != Made(from_);
}

bool Stepper::EndsAfter(const Position& at) const {
  return LeavesFunction() && !from_.call && at.run == from_.run && !at.quiet &&
         at.depth <= from_.depth && InCall(at, from_, from_.shown) && at.goes_on < from_.shown;
}

size_t Stepper::ShownAt(const Position& at) const {
  const size_t all = Made(at).size();
  if (unit_ == StepUnit::kOp || !active()) return all;
  const bool same_run = at.run == from_.run || (at.call && from_.call);
  size_t shown = 1 + (same_run ? SameVisits(Made(at), Made(from_)) : 0);
  // The same frame may belong to another iteration.
  if (at.depth > 0 && (at.block != from_.block || at.iteration != from_.iteration))
    shown = std::min(shown, at.base);
  // Out of a function that was called twice on a line: the step goes to the line.
  if (LeavesFunction()) shown = std::min(shown, from_.shown - 1);
  if (at.call && !from_.call) shown = all;
  return std::min(std::max(shown, std::max<size_t>(at.base, 1)), all);
}

}  // namespace opstep
