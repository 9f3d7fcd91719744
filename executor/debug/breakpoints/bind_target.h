// BindTarget: the place that a breakpoint or tap names, and why no op is bound to it.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "debug.pb.h"
#include "debug/plans/bound_plans.h"

namespace opstep {

// What the `where` of a breakpoint or tap means in the plans seen so far. The session's lock guards
// it.
struct BindTarget {
  std::set<uint32_t> lines;  // lines of its file or listing that have ops
  std::string nearest;       // op or variable
  // Its program: that of an op by number, or of the plan where it was bound if it names none.
  uint32_t program = 0;
  std::string program_name;
  std::string several;  // variables that its name has held
  bool beside = false;  // its line made only gradients and first values
  bool seen_plan = false;

  // It names an op without its program.
  static bool NamesNoProgram(const proto::Breakpoint& spec);
  // Can it mean this plan?
  bool MayBeIn(const proto::Breakpoint& spec, const Plan& plan) const;
  // Learns from a plan in which no op was found.
  void Explain(const proto::Breakpoint& spec, const Plan& plan);
  // One sentence.
  std::string WhyUnbound(const proto::Breakpoint& spec) const;
};

// A variable may be named by its Python name.
proto::Breakpoint WithVariable(proto::Breakpoint spec, const Plan& plan, const BoundPlan& bound);

}  // namespace opstep
