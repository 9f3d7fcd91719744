// Session: one connection with a debug server, and the process's Hook while it lasts.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "debug/agent.h"
#include "debug/breakpoints/breakpoints.h"
#include "debug/breakpoints/log_queue.h"
#include "debug/faults/fault_filters.h"
#include "debug/plans/bound_plans.h"
#include "debug/session/commands.h"
#include "debug/session/thread_state.h"
#include "debug/taps/taps.h"
#include "debug/wire/channel.h"
#include "runtime/hook.h"

namespace opstep {

// One connection: the process's Hook while a server is attached or taps are set, and the target of
// commands.
//
// Threads: it has none except that of the LogQueue. The channel's reader calls the ChannelListener
// and CommandTarget parts and never waits there for a run. The user's threads call the Hook part
// and wait in it while they are stopped, each on its ThreadState::wake, until a command, the policy
// on disconnect, max_pause or Ctrl-C lets them go. One lock guards all state. It is not held while
// frames are read, expressions are evaluated or Python is asked.
class Session final : public Hook,
                      public ChannelListener,
                      public CommandTarget,
                      public std::enable_shared_from_this<Session> {
 public:
  Session(AgentOptions options, std::shared_ptr<Taps> taps);
  void Start();
  // Taps have ended too, and their records are sent or counted.
  void Close();
  // The same, but taps stay, for another session.
  void Yield();
  // In a forked child: the session is not used again.
  void Abandon();
  AgentState state();
  // See Channel::Invite.
  Channel::Invited Invite(const std::string& address) { return channel_->Invite(address); }

  // Asks the server for a tap, as opstep.debug.tap() does, and waits for its uid. Throws.
  std::string RequestTap(const std::string& text, double seconds);
  proto::TapStatuses ListTaps() override;
  proto::TapStatuses DropTaps(const proto::DropTaps& wanted) override;

  // Also while the first run waits for a server that may want to stop in it.
  bool Inspects() const override { return attached_ || !settled_; }
  void EnterBlock(const FrameView& frame) override;
  void BeforeOp(FrameEditor& frame) override;
  void AfterOp(FrameEditor& frame) override;
  void OnError(FrameEditor& frame, const Error& error) override;
  void LeaveBlock(const FrameView& frame) override;

  void OnWelcome(const proto::Welcome& welcome) override;
  void OnCommand(const proto::Command& command) override;
  void OnLogsTaken(uint64_t records) override { logs_.Taken(records); }
  void OnTapsTaken(const proto::TapsTaken& taken) override { taps_->sender().Taken(taken); }
  void OnTapAnswer(const proto::TapAnswer& answer) override;
  void OnClosed(const std::string& why, bool final, bool read_all) override;
  bool WaitsForGuest() override;

  proto::BreakpointStatuses SetBreakpoints(const proto::SetBreakpoints& wanted) override;
  proto::FaultStatuses SetFaultFilters(const proto::SetFaultFilters& wanted) override;
  proto::TapStatuses SetTaps(const proto::SetTaps& wanted) override;
  void Resume(const proto::Resume& wanted, proto::Reply answer) override;
  void Pause(uint32_t thread) override;
  void Detach(proto::Reply answer) override;
  void SetPresence(bool present) override;
  void Terminate(proto::Reply answer) override;
  proto::Programs Programs() override;
  std::vector<std::shared_ptr<const Plan>> PlansOf(uint32_t program) override;
  void AskStopped(uint32_t thread, uint32_t stop, const proto::Command& command) override;
  void Cancel(uint64_t command) override;
  void Answer(proto::Reply reply) override;

  void ThreadEnded(ThreadState& thread);

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Request;

  // session.cc, session_commands.cc and session_plans.cc; all but WaitForWelcome with the lock
  // held.
  void WaitForWelcome();
  void Leave(bool go_on);
  // The session is the hook while it has something to do; plans that it does not watch any more are
  // bound again without it.
  void Settle();
  void Arrive();
  void Depart();
  ThreadState& Announce(ThreadState& thread);
  BoundPlan& FindOrBind(const Plan& plan, std::shared_ptr<const PythonNames> python = nullptr);
  void TellProgram(const Plan& plan);
  void TellTraced();
  void TellPrograms();
  void Bind(const Plan& plan, BoundPlan& bound);
  void BindAll();
  void Arm(const Plan& plan, BoundPlan& bound);
  void DisarmIfIdle();
  void SendChanges();
  ThreadState& Stopped(uint32_t thread);

  // session_hook.cc
  ThreadState& ThisThread();
  // A block that began while only taps looked has not kept its values.
  bool Debugs(const FrameView& frame) const {
    return attached_ && frame.shape() == PlanShape::kInspect;
  }
  // The work of taps at the op, before breakpoints and faults are checked.
  void TapOp(const FrameView& frame);
  void Visit(const std::vector<Binding>& bindings, ThreadState& thread, const FrameView& frame,
             Request* request);
  bool Holds(const Binding& binding, const FrameView& frame, Request* request);
  void Log(const Binding& binding, const ThreadState& thread, const FrameView& frame);
  void Stop(ThreadState& thread, FrameEditor& frame, Request request);
  void StopAt(Lock& lock, ThreadState& thread, FrameEditor& frame, proto::Stopped stopped,
              const Request& request);
  // session_wait.cc
  void Wait(Lock& lock, ThreadState& thread, FrameEditor& frame);

  const AgentOptions options_;
  const proto::Policy policy_;
  const uint64_t id_;
  std::unique_ptr<Channel> channel_;
  std::atomic<bool> abandoned_{false};
  // A server is connected and somebody uses it.
  std::atomic<bool> attached_{false};
  // Nobody waits for the first welcome any more.
  std::atomic<bool> settled_{false};

  std::mutex mutex_;
  std::condition_variable welcomed_;
  bool wanted_ = true;
  bool connected_ = false;
  std::string server_;   // while connected
  std::string refused_;  // why it will not try again
  std::chrono::steady_clock::time_point wait_until_;
  // Counts welcomes, so that an answer only goes to the server that asked.
  uint64_t epoch_ = 0;
  std::map<uint32_t, std::shared_ptr<ThreadState>> threads_;
  uint32_t last_thread_ = 0;
  uint32_t last_stop_ = 0;
  BoundPlans plans_;
  Breakpoints breakpoints_;
  FaultFilters faults_;
  std::unordered_map<uint32_t, uint32_t> told_programs_;  // program → version
  // The thread that runs the next op stops, for this reason.
  std::optional<proto::StopReason> stop_next_;
  // Has its own lock.
  LogQueue logs_;
  const std::shared_ptr<Taps> taps_;
  TapRuns tap_runs_;
  // Answers to RequestTap, by number.
  uint64_t last_request_ = 0;
  std::map<uint64_t, proto::TapAnswer> tap_answers_;
  std::condition_variable tap_answered_;
};

}  // namespace opstep
