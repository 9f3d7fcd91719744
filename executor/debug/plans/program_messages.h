// What the wire's messages tell of programs and ops.
#pragma once

#include "debug.pb.h"
#include "debug/plans/bound_plans.h"
#include "plan/plan.h"

namespace opstep {

// What the wire tells of a plan's program.
proto::ProgramEvent Describe(const Plan& plan);
// The same of the one program of imperative mode.
proto::ProgramEvent Describe(BoundPlans& plans);
// What the wire tells of an op.
void FillOpInfo(const Plan& plan, int block, const proto::OpDesc& op, proto::OpInfo* info);

}  // namespace opstep
