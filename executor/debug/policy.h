// What a debugger may do in this process, whatever a server asks for: the one place that says so.
#pragma once

#include <string>
#include <vector>

#include "debug.pb.h"

namespace opstep {

// One sentence when the policy forbids the command, empty when not.
std::string Forbidden(proto::Policy policy, const proto::Command& command);
// May a thread stop at all?
bool MayStop(proto::Policy policy);
// Takes those away that the policy forbids, and says of each why it is not bound.
std::vector<proto::BreakpointStatus> KeepPermitted(proto::Policy policy,
                                                   proto::SetBreakpoints* wanted);

// "full", "observe" or "log-only"; anything else is POLICY_UNSPECIFIED.
proto::Policy PolicyNamed(const std::string& name);
std::string NameOf(proto::Policy policy);

}  // namespace opstep
