// Programs and ops as the wire's messages.
#pragma once

#include "debug.pb.h"
#include "debug/plans/bound_plans.h"
#include "plan/plan.h"

namespace opstep {

// The wire message for a plan's program.
proto::ProgramEvent Describe(const Plan& plan);
// The same for the one program of imperative mode.
proto::ProgramEvent Describe(BoundPlans& plans);
// The wire message for an op.
void FillOpInfo(const Plan& plan, int block, const proto::OpDesc& op, proto::OpInfo* info);

}  // namespace opstep
