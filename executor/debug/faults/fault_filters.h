// FaultFilters: the fault filters that are set, and whether each can be used.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "debug.pb.h"
#include "debug/plans/bound_plans.h"

namespace opstep {

// The session's lock guards it.
class FaultFilters {
 public:
  // Replaces all filters by these. Bind must then be called for every bound plan.
  void Replace(const proto::SetFaultFilters& wanted);
  void Clear() { entries_.clear(); }

  // Puts them into the work of a plan's ops.
  void Bind(const Plan& plan, BoundPlan& bound);

  // A sentence for each filter that cannot be used; they count as reported.
  proto::FaultStatuses Tell();
  // The same when it differs from the last report.
  std::optional<proto::FaultStatuses> TakeChanges();

 private:
  struct Entry {
    proto::FaultFilter spec;
    bool bound = false;  // somewhere
    std::string error;   // why its condition cannot be evaluated at an op
    std::string told;
  };

  std::vector<Entry> entries_;
};

}  // namespace opstep
