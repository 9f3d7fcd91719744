// CommandTarget: the target of the server's commands.
#pragma once

#include "debug.pb.h"
#include "debug/inspect/inspection.h"
#include "runtime/hook.h"

namespace opstep {

// The target of commands. Every method may throw Error, which becomes the command's answer.
class CommandTarget {
 public:
  virtual ~CommandTarget() = default;
  virtual proto::BreakpointStatuses SetBreakpoints(const proto::SetBreakpoints& wanted) = 0;
  virtual proto::FaultStatuses SetFaultFilters(const proto::SetFaultFilters& wanted) = 0;
  virtual proto::TapStatuses SetTaps(const proto::SetTaps& wanted) = 0;
  virtual proto::TapStatuses DropTaps(const proto::DropTaps& wanted) = 0;
  virtual proto::TapStatuses ListTaps() = 0;
  // The answer must be sent before the thread continues: its next stop must not overtake it.
  virtual void Resume(const proto::Resume& wanted, proto::Reply answer) = 0;
  virtual void Pause(uint32_t thread) = 0;
  virtual void Detach(proto::Reply answer) = 0;
  virtual void SetPresence(bool present) = 0;
  // The answer is sent before the process is ended.
  virtual void Terminate(proto::Reply answer) = 0;
  virtual proto::Programs Programs() = 0;
  // Throws for a program that is unknown or gone. One plan, or in imperative mode one for each op,
  // by op id.
  virtual std::vector<std::shared_ptr<const Plan>> PlansOf(uint32_t program) = 0;
  // Lets AnswerStopped answer the command on the stopped thread.
  virtual void AskStopped(uint32_t thread, uint32_t stop, const proto::Command& command) = 0;
  // Cancels a command of AskStopped that is not answered yet.
  virtual void Cancel(uint64_t command) = 0;
  virtual void Answer(proto::Reply reply) = 0;
};

// Ensures that the command is answered exactly once; never throws.
void RunCommand(const proto::Command& command, CommandTarget& target) noexcept;
// For commands that read or change a run; called on its thread. `ahead` lasts for one stop.
proto::Reply AnswerStopped(const proto::Command& command, const Look& look,
                           ReadAhead& ahead) noexcept;
proto::Reply ErrorReply(uint64_t command, const std::string& error);

}  // namespace opstep
