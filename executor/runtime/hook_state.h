// Watched: the whole cost per op of a run that is not watched.
#pragma once

#include <atomic>
#include <cstdint>

#include "plan/plan.h"

namespace opstep {

// Rises with every SetHook, so that a run need not take a lock to see that nothing changed.
extern std::atomic<uint64_t> hook_epoch;
// Is there a hook?
extern std::atomic<bool> hook_there;
// Runs of this thread go on without a hook set now: the thread holds something needed by threads
// that the hook would wait for.
extern thread_local constinit bool unwatched_runs;

// The whole cost per op of a run that is not watched: one relaxed load and one branch not taken.
// OPSTEP_NO_HOOK exists only for the benchmark that measures this price.
inline bool Watched([[maybe_unused]] const Instruction& instruction) {
#ifdef OPSTEP_NO_HOOK
  return false;
#else
  return instruction.watch.load(std::memory_order_relaxed) != 0;
#endif
}

}  // namespace opstep
