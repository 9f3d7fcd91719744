// Questions about a slot of a plan in a run: does it hold a tensor, is its block running.
#pragma once

#include "runtime/hook.h"

namespace opstep {

// Is the variable's value a tensor? Stacks and readers have none.
inline bool HoldsTensor(const SlotPlan& slot) {
  return slot.storage != Storage::kStack && slot.storage != Storage::kReader;
}

// Is the variable's block running?
inline bool IsRunning(const FrameView& frame, uint32_t slot) {
  const Activation* level = &frame.top();
  while (level && level->block != frame.plan().slots[slot].block) level = level->parent;
  return level != nullptr;
}

// The type of its value in this run, also before the value exists. Sizes that depend on an
// iteration's data are known while the iteration runs.
inline VarType TypeNow(const FrameView& frame, uint32_t slot) {
  const VarType& planned = frame.plan().slots[slot].type;
  const VarType now = frame.tensor(slot).type();
  const bool told = HoldsTensor(frame.plan().slots[slot]) && now.dtype == planned.dtype;
  return !planned.dims.known() && told && IsRunning(frame, slot) ? now : planned;
}

}  // namespace opstep
