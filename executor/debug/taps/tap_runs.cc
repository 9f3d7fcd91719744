// TapRuns: beginning and end of the runs that taps look at, and each of their ops.
#include "debug/taps/tap_runs.h"

#include <memory>

namespace opstep {

void TapRuns::Start(Thread& thread, const FrameView& frame, BoundPlan& bound) {
  thread.version = taps_.version();
  if (taps_.Police(TapClock::now())) rebind_();
  const bool due = taps_.Due(bound, frame.step());
  if (due && thread.plan == frame.plan().id) return;
  End(thread);
  if (!due) return;
  thread.plan = frame.plan().id;
  if (bound.tapped++ == 0) plans_.Watch(frame.plan(), bound);
}

void TapRuns::End(Thread& thread) {
  BoundPlan* bound = thread.plan ? plans_.Find(thread.plan) : nullptr;
  thread.plan = 0;
  if (bound == nullptr || --bound->tapped > 0) return;
  if (const std::shared_ptr<const Plan> plan = bound->plan.lock()) plans_.Watch(*plan, *bound);
}

void TapRuns::EndRun(Thread& thread, const FrameView& frame) {
  const std::lock_guard lock(mutex_);
  if (thread.plan == 0) return;
  const BoundPlan* bound = plans_.Find(thread.plan);
  if (bound == nullptr || !taps_.Due(*bound, frame.step() + 1)) End(thread);
}

void TapRuns::AtOp(uint32_t id, const FrameView& frame) {
  std::shared_ptr<const OpWork> work;
  {
    const std::lock_guard lock(mutex_);
    if (const BoundPlan* bound = plans_.Find(frame.plan().id)) work = bound->At(frame.top()).work;
  }
  if (work) taps_.Visit(frame.after() ? work->taps_after : work->taps_before, frame, id);
  if (!taps_.IsPatrolDue()) return;
  const std::lock_guard lock(mutex_);
  if (!retired_ && taps_.Police(TapClock::now())) rebind_();
}

}  // namespace opstep
