// The rules for debuggers in this process: the one place that decides what a server may do.
#pragma once

#include <string>
#include <vector>

#include "debug.pb.h"

namespace opstep {

// One sentence when the policy forbids the command, empty when not.
std::string Forbidden(proto::Policy policy, const proto::Command& command);
// May a thread stop at all?
bool MayStop(proto::Policy policy);
// Removes those that the policy forbids, and says why each is not bound.
std::vector<proto::BreakpointStatus> KeepPermitted(proto::Policy policy,
                                                   proto::SetBreakpoints* wanted);

// "full", "observe" or "log-only"; anything else is POLICY_UNSPECIFIED.
proto::Policy PolicyNamed(const std::string& name);
std::string NameOf(proto::Policy policy);

}  // namespace opstep
