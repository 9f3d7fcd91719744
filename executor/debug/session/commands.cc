// Commands of the server: one case for each, lists of ops and lines.
#include "debug/session/commands.h"

#include <algorithm>

#include "debug/plans/program_messages.h"
#include "debug/wire/channel.h"
#include "runtime/traced_program.h"

namespace opstep {
namespace {

using SomePlans = std::vector<std::shared_ptr<const Plan>>;

constexpr uint32_t kMaxPage = 1000;
constexpr size_t kMaxBytes = 3 << 20;
static_assert(kMaxBytes < Channel::kMessageLimit);

uint32_t PageSize(uint32_t wanted) { return wanted ? std::min(wanted, kMaxPage) : kMaxPage; }

// Ops in the order of the listing, up to the limit.
void ListOps(const SomePlans& plans, const proto::ListOps& wanted, proto::Ops* out) {
  struct Op {
    uint32_t line;
    const Plan* plan;
    int block;
    const proto::OpDesc* op;
  };
  std::vector<Op> ops;
  for (const auto& plan : plans) {
    for (int block = 0; block < plan->desc.blocks_size(); ++block) {
      for (const proto::OpDesc& op : plan->desc.blocks(block).ops()) {
        const auto line = plan->listing.line_of.find(op.id());
        const bool listed = line != plan->listing.line_of.end();
        ops.push_back({listed ? line->second : UINT32_MAX, plan.get(), block, &op});
      }
    }
  }
  std::stable_sort(ops.begin(), ops.end(), [](auto& a, auto& b) { return a.line < b.line; });
  out->set_total(static_cast<uint32_t>(ops.size()));
  size_t bytes = 0;
  for (size_t i = wanted.start(); i < ops.size() && i - wanted.start() < PageSize(wanted.count());
       ++i) {
    proto::OpInfo info;
    const auto& [line, plan, block, op] = ops[i];
    FillOpInfo(*plan, block, *op, &info);
    for (const proto::Slot& slot : op->inputs()) {
      for (const std::string& variable : slot.vars()) {
        proto::SlotInfo* input = info.add_inputs();
        input->set_slot(slot.name());
        input->set_variable(variable);
      }
    }
    bytes += info.ByteSizeLong();
    if (bytes > kMaxBytes && out->ops_size() > 0) break;
    *out->add_ops() = std::move(info);
  }
}

// In imperative mode an op's line number is its id.
std::vector<std::string> TracedListing(const SomePlans& plans) {
  std::vector<std::string> lines{plans[0]->listing.lines[0]};
  for (const auto& plan : plans) {
    const uint32_t op = plan->desc.blocks(0).ops(0).id();
    while (lines.size() < op) lines.push_back(Cat("#", lines.size(), "   has not run again"));
    lines.push_back(plan->listing.lines[1]);
  }
  return lines;
}

void GetListing(const SomePlans& plans, const proto::GetListing& wanted, proto::Listing* out) {
  const bool traced = !plans.empty() && IsTraced(*plans[0]);
  const std::vector<std::string> together =
      traced ? TracedListing(plans) : std::vector<std::string>();
  const std::vector<std::string>& lines =
      traced || plans.empty() ? together : plans[0]->listing.lines;
  const size_t start = wanted.start() ? wanted.start() - 1 : 0;
  out->set_total(static_cast<uint32_t>(lines.size()));
  size_t bytes = 0;
  for (size_t i = start; i < lines.size() && i - start < PageSize(wanted.count()); ++i) {
    bytes += lines[i].size() + 8;
    if (bytes > kMaxBytes && out->lines_size() > 0) break;
    out->add_lines(lines[i]);
  }
}

template <typename Message>
void AskStopped(const Message& wanted, const proto::Command& command, CommandTarget& target) {
  target.AskStopped(wanted.thread(), wanted.stop(), command);
}

void Run(const proto::Command& command, CommandTarget& target) {
  proto::Reply reply;
  reply.set_command(command.id());
  switch (command.command_case()) {
    case proto::Command::kSetBreakpoints:
      *reply.mutable_breakpoints() = target.SetBreakpoints(command.set_breakpoints());
      break;
    case proto::Command::kSetFaultFilters:
      *reply.mutable_faults() = target.SetFaultFilters(command.set_fault_filters());
      break;
    case proto::Command::kSetTaps:
      *reply.mutable_taps() = target.SetTaps(command.set_taps());
      break;
    case proto::Command::kDropTaps:
      *reply.mutable_taps() = target.DropTaps(command.drop_taps());
      break;
    case proto::Command::kListTaps:
      *reply.mutable_taps() = target.ListTaps();
      break;
    case proto::Command::kResume:
      reply.mutable_done();
      return target.Resume(command.resume(), std::move(reply));
    case proto::Command::kPause:
      target.Pause(command.pause().thread());
      reply.mutable_done();
      break;
    case proto::Command::kDetach:
      reply.mutable_done();
      return target.Detach(std::move(reply));
    case proto::Command::kSetPresence:
      target.SetPresence(command.set_presence().present());
      reply.mutable_done();
      break;
    case proto::Command::kTerminate:
      reply.mutable_done();
      return target.Terminate(std::move(reply));
    case proto::Command::kListPrograms:
      *reply.mutable_programs() = target.Programs();
      break;
    case proto::Command::kListOps:
      ListOps(target.PlansOf(command.list_ops().program()), command.list_ops(),
              reply.mutable_ops());
      break;
    case proto::Command::kGetListing:
      GetListing(target.PlansOf(command.get_listing().program()), command.get_listing(),
                 reply.mutable_listing());
      break;
    case proto::Command::kGetVariables:
      return AskStopped(command.get_variables(), command, target);
    case proto::Command::kEvaluate:
      return AskStopped(command.evaluate(), command, target);
    case proto::Command::kAssign:
      return AskStopped(command.assign(), command, target);
    case proto::Command::kReadBytes:
      return AskStopped(command.read_bytes(), command, target);
    case proto::Command::kWriteBytes:
      return AskStopped(command.write_bytes(), command, target);
    case proto::Command::kListNames:
      return AskStopped(command.list_names(), command, target);
    case proto::Command::kFindVariable:
      return AskStopped(command.find_variable(), command, target);
    case proto::Command::kCancel:
      target.Cancel(command.cancel().command());
      reply.mutable_done();
      break;
    default:
      Fail("this executor does not know that command: install the same opstep on both sides");
  }
  target.Answer(std::move(reply));
}

}  // namespace

proto::Reply ErrorReply(uint64_t command, const std::string& error) {
  proto::Reply reply;
  reply.set_command(command);
  reply.set_error(error);
  return reply;
}

void RunCommand(const proto::Command& command, CommandTarget& target) noexcept {
  try {
    Run(command, target);
  } catch (const std::exception& error) {
    target.Answer(ErrorReply(command.id(), error.what()));
  }
}

proto::Reply AnswerStopped(const proto::Command& command, const Look& look,
                           ReadAhead& ahead) noexcept {
  try {
    proto::Reply reply;
    reply.set_command(command.id());
    if (!command.has_read_bytes()) ahead.Reset();
    switch (command.command_case()) {
      case proto::Command::kGetVariables:
        GetVariables(look, command.get_variables(), reply.mutable_variables());
        break;
      case proto::Command::kEvaluate:
        Evaluate(look, command.evaluate(), reply.mutable_value());
        break;
      case proto::Command::kListNames:
        ListNames(look, command.list_names(), reply.mutable_names());
        break;
      case proto::Command::kFindVariable:
        FindVariable(look, command.find_variable(), reply.mutable_found());
        break;
      case proto::Command::kReadBytes:
        ReadBytes(look, command.read_bytes(), ahead, reply.mutable_bytes());
        break;
      case proto::Command::kAssign:
        Assign(look, command.assign(), reply.mutable_value());
        break;
      case proto::Command::kWriteBytes:
        WriteBytes(look, command.write_bytes());
        reply.mutable_done();
        break;
      default:
        Fail("that command does not look at a thread");
    }
    return reply;
  } catch (const std::exception& error) {
    return ErrorReply(command.id(), error.what());
  }
}

}  // namespace opstep
