// Breakpoints: the set breakpoints and the status of each.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "debug.pb.h"
#include "debug/breakpoints/bind_target.h"
#include "debug/plans/bound_plans.h"
#include "debug/taps/tap_limits.h"

namespace opstep {

// Knows nothing of threads and the wire; the session's lock guards it.
class Breakpoints {
 public:
  // They are log points, and may show what taps may.
  void Limit(const TapLimits* limits) { limits_ = limits; }
  // Replaces all breakpoints by these. Bind must then be called for every bound plan.
  void Replace(const proto::SetBreakpoints& wanted);
  void Clear() { entries_.clear(); }
  // A thread stops for it. False when it has been removed meanwhile. Removes a temporary
  // breakpoint.
  bool Take(uint32_t id, bool* gone);

  // Resolves all of them against a plan and puts them into the work of its ops.
  void Bind(const Plan& plan, BoundPlan& bound);
  // The condition could not be evaluated: reported once.
  void ConditionFailed(uint32_t id, const std::string& error);

  // All, in the order in which they were set; they count as reported.
  proto::BreakpointStatuses Tell();
  // Those that differ from the last report.
  std::vector<proto::BreakpointStatus> TakeChanges();

 private:
  struct Entry {
    proto::Breakpoint spec;
    size_t order = 0;
    // Ops it was bound to, also those of plans that are gone: they bind again when they come back.
    std::set<std::pair<uint32_t, uint32_t>> ops;  // program, op
    size_t unfit = 0;                             // ops where its condition cannot be evaluated
    proto::BreakpointStatus status;
    std::string condition_error;   // of binding
    std::string condition_failed;  // of evaluating
    std::string log_problem;       // a value of the log message that is not available at some op
    std::string refused;           // why an op is not to be logged
    std::string hidden;            // a slot that it names is another variable in Python
    std::shared_ptr<HitCount> hits;
    uint32_t moved = 0;  // the line that was used instead of its own
    BindTarget target;
    std::string told;
  };

  void BindOne(Entry& entry, const Plan& plan, BoundPlan& bound);
  void JoinStops(Entry& entry, const proto::Breakpoint& spec, const Plan& plan,
                 BoundPlan& bound) const;
  void BindAt(Entry& entry, const proto::Breakpoint& spec, const Plan& plan, int block,
              const Instruction& instruction, Binding binding, BoundPlan& bound) const;
  void Refresh(Entry& entry) const;
  std::vector<Entry*> InOrder();

  std::unordered_map<uint32_t, Entry> entries_;
  const TapLimits* limits_ = nullptr;
  bool line_by_line_ = false;  // ops of imperative mode were seen
};

}  // namespace opstep
