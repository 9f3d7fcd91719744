// BindTarget: what a breakpoint or tap is to be bound to, and why no op is bound to it.
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
  std::set<uint32_t> lines;  // of its file, or of its listing, with ops
  std::string nearest;       // op or variable
  // The one that it belongs to: of an op by number, and of what was bound though it names none.
  uint32_t program = 0;
  std::string program_name;
  std::string several;  // variables that its name has held
  bool beside = false;  // only gradients and first values are on its line
  bool seen_plan = false;

  // It names an op without its program.
  static bool NamesNoProgram(const proto::Breakpoint& spec);
  // Is the plan one that it can mean?
  bool MayBeIn(const proto::Breakpoint& spec, const Plan& plan) const;
  // Learns from a plan in which no op was found.
  void Explain(const proto::Breakpoint& spec, const Plan& plan);
  // One sentence.
  std::string WhyUnbound(const proto::Breakpoint& spec) const;
};

// A variable may be called what Python calls it.
proto::Breakpoint WithVariable(proto::Breakpoint spec, const Plan& plan, const BoundPlan& bound);

}  // namespace opstep
