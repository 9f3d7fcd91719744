// Taps: all taps of this process.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "debug/breakpoints/bind_target.h"
#include "debug/plans/bound_plans.h"
#include "debug/taps/tap_audit.h"
#include "debug/taps/tap_limits.h"
#include "debug/taps/tap_sender.h"
#include "runtime/hook.h"

namespace opstep {

// The taps of this process: they log values of ops during runs and never stop them. The object
// outlives its session, as taps outlive the server that set them.
//
// The session's lock guards it, except for Visit (tap_visit.cc), which runs call without the lock,
// and the sender, which has its own lock.
class Taps {
 public:
  explicit Taps(TapLimits limits);

  // Replaces the limits; the queue stays as it is. Taps beyond the new limits end.
  void Limit(TapLimits limits);
  // Can any tap make records?
  bool any() const { return any_.load(std::memory_order_relaxed); }
  // Rises with every change.
  uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  // Replaces all taps of the server by these. Bind must then be called for every bound plan.
  void Replace(const proto::SetTaps& wanted);
  void Drop(const proto::DropTaps& wanted);
  void Clear();
  // The server is gone: ends the taps that end with it; true when there were any.
  bool ServerGone();

  // No more records are made.
  void Stop();

  // Puts them into the work of a plan's ops.
  void Bind(const Plan& plan, BoundPlan& bound);
  // A run of the plan begins: does a tap look at it?
  bool Due(const BoundPlan& bound, uint64_t step) const;
  // Checks the time and bytes of the taps in the last second, and the clock. True when a tap has
  // ended: then all plans must be bound again.
  bool Police(TapClock::time_point now);
  // Is it time for that, in a long run? True for one thread a second.
  bool IsPatrolDue();

  // On the thread that runs, without the lock.
  void Visit(const std::vector<TapBinding>& bindings, const FrameView& frame, uint32_t thread);

  proto::TapStatuses Tell(bool audit = false);
  // Those whose status, except for the counts, differs from the last report.
  proto::TapStatuses TakeChanges();

  TapSender& sender() { return sender_; }

 private:
  struct Entry {
    std::shared_ptr<LiveTap> tap;
    BindTarget target;
    std::set<std::pair<uint32_t, uint32_t>> ops;  // program, op: bound
    std::string problem;                          // of its value or condition at some op
    size_t forbidden = 0;                         // ops that the policy forbids to log
    // By program, op and variable: the same number for all shapes of a value.
    std::map<std::string, std::shared_ptr<const TapPoint>> points;
    std::string told;
  };

  void Add(const proto::Tap& spec, const std::string& server);
  void End(Entry& entry, std::string why);
  bool EndThoseOver(TapClock::time_point now);
  void BindOne(Entry& entry, const Plan& plan, BoundPlan& bound);
  void BindAt(Entry& entry, const proto::Breakpoint& where, const Plan& plan, int block,
              const Instruction& instruction, BoundPlan& bound);
  std::shared_ptr<const TapPoint> PointOf(Entry& entry, const Plan& plan, int block,
                                          const Instruction& instruction, uint32_t slot);
  void Record(const TapBinding& binding, const FrameView& frame, TapRecord* record);
  proto::TapStatus StatusOf(const Entry& entry) const;
  void Refresh();

  static constexpr std::chrono::nanoseconds kPatrol = std::chrono::seconds(1);

  // Why this process does not allow the tap; "" when it does.
  std::string Refusal(const proto::Tap& spec) const;

  TapLimits limits_;
  std::atomic<bool> full_tensors_;  // as in limits_, for runs
  TapAudit audit_;
  TapSender sender_;
  std::atomic<bool> any_{false};
  std::atomic<bool> stopped_{false};
  std::atomic<uint64_t> version_{1};
  std::map<std::string, Entry> entries_;  // by uid
  uint32_t last_point_ = 0;
  std::atomic<int64_t> next_patrol_{0};
  TapClock::time_point looked_;  // at the limits
};

}  // namespace opstep
