// TapRuns: which runs the taps look at, and their work at the ops of these runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

#include "debug/plans/bound_plans.h"
#include "debug/taps/taps.h"
#include "runtime/hook.h"

namespace opstep {

// The part of the taps that hooks call on the user's threads. The watch bytes of a tapped plan are
// set only in runs where a tap is due.
//
// `mutex` is the session's lock. It guards the plans, the taps and everything here except
// `version`.
class TapRuns {
 public:
  // State of one thread.
  struct Thread {
    uint64_t plan = 0;                 // plan of the tapped run; 0: none
    std::atomic<uint64_t> version{0};  // version of the taps that it has seen
  };

  // `rebind` binds all plans again, because a tap has ended; called with the lock held.
  TapRuns(std::mutex& mutex, BoundPlans& plans, Taps& taps, std::function<void()> rebind)
      : mutex_(mutex), plans_(plans), taps_(taps), rebind_(std::move(rebind)) {}

  // The taps have changed since the thread last looked. With or without the lock.
  bool HaveChanged(const Thread& thread) const { return thread.version != taps_.version(); }

  // With the lock held: a run of the plan begins, or the taps have changed in the midst of one.
  void Start(Thread& thread, const FrameView& frame, BoundPlan& bound);
  // With the lock held: the run that the thread was in is over, or nobody looks at it any more.
  void End(Thread& thread);

  // The others take the lock, but not around the work of the taps.

  // A run is over. Its watch bytes stay set only if the next one is looked at too: other threads
  // that run the plan pay for them.
  void EndRun(Thread& thread, const FrameView& frame);
  // Before or after an op; `id` is the thread's.
  void AtOp(uint32_t id, const FrameView& frame);
  // The taps belong to another session now: active runs still call this one.
  void Retire() { retired_ = true; }
  bool retired() const { return retired_; }

 private:
  std::mutex& mutex_;
  BoundPlans& plans_;
  Taps& taps_;
  const std::function<void()> rebind_;
  std::atomic<bool> retired_{false};
};

}  // namespace opstep
