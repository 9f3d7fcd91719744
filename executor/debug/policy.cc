// The three policies, and what each forbids.
#include "debug/policy.h"

#include "base/error.h"

namespace opstep {
namespace {

constexpr char kObserves[] = "this process may only be observed (policy observe): it cannot be ";
constexpr char kLogs[] = "this process may only be logged (policy log-only): ";

}  // namespace

bool MayStop(proto::Policy policy) { return policy != proto::POLICY_LOG_ONLY; }

std::string Forbidden(proto::Policy policy, const proto::Command& command) {
  if (policy == proto::POLICY_FULL) return "";
  const bool log_only = policy == proto::POLICY_LOG_ONLY;
  switch (command.command_case()) {
    case proto::Command::kAssign:
    case proto::Command::kWriteBytes:
      return log_only ? Cat(kLogs, "nothing in it can be changed") : Cat(kObserves, "changed");
    case proto::Command::kTerminate:
      return log_only ? Cat(kLogs, "it cannot be ended") : Cat(kObserves, "ended");
    case proto::Command::kPause:
    case proto::Command::kResume:
    case proto::Command::kGetVariables:
    case proto::Command::kEvaluate:
    case proto::Command::kReadBytes:
    case proto::Command::kListNames:
    case proto::Command::kFindVariable:
      return log_only ? Cat(kLogs, "it never stops") : "";
    case proto::Command::kSetFaultFilters:
      if (!log_only || command.set_fault_filters().filters().empty()) return "";
      return Cat(kLogs, "it never stops");
    default:
      return "";
  }
}

std::vector<proto::BreakpointStatus> KeepPermitted(proto::Policy policy,
                                                   proto::SetBreakpoints* wanted) {
  std::vector<proto::BreakpointStatus> refused;
  if (MayStop(policy)) return refused;
  proto::SetBreakpoints kept;
  for (proto::Breakpoint& breakpoint : *wanted->mutable_breakpoints()) {
    if (breakpoint.has_log()) {
      *kept.add_breakpoints() = std::move(breakpoint);
      continue;
    }
    proto::BreakpointStatus& status = refused.emplace_back();
    status.set_id(breakpoint.id());
    status.set_message(Cat(kLogs, "give the breakpoint a log message"));
  }
  *wanted = std::move(kept);
  return refused;
}

proto::Policy PolicyNamed(const std::string& name) {
  if (name == "full") return proto::POLICY_FULL;
  if (name == "observe") return proto::POLICY_OBSERVE;
  if (name == "log-only") return proto::POLICY_LOG_ONLY;
  return proto::POLICY_UNSPECIFIED;
}

std::string NameOf(proto::Policy policy) {
  switch (policy) {
    case proto::POLICY_OBSERVE:
      return "observe";
    case proto::POLICY_LOG_ONLY:
      return "log-only";
    default:
      return "full";
  }
}

}  // namespace opstep
