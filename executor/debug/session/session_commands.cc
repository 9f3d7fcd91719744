// Session as the CommandTarget: the effect of each command.
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "debug/plans/program_messages.h"
#include "debug/policy.h"
#include "debug/session/session.h"
#include "runtime/traced_program.h"

namespace opstep {
namespace {

// Of commands that wait for a stopped thread; a command has at most 4 MiB, most have a few bytes.
constexpr size_t kMostJobs = 1000;

}  // namespace

proto::BreakpointStatuses Session::SetBreakpoints(const proto::SetBreakpoints& wanted) {
  Lock lock(mutex_);
  proto::SetBreakpoints kept = wanted;
  const auto refused = KeepPermitted(policy_, &kept);
  breakpoints_.Replace(kept);
  BindAll();
  proto::BreakpointStatuses told = breakpoints_.Tell();
  for (const proto::BreakpointStatus& status : refused) *told.add_statuses() = status;
  return told;
}

proto::FaultStatuses Session::SetFaultFilters(const proto::SetFaultFilters& wanted) {
  Lock lock(mutex_);
  faults_.Replace(wanted);
  BindAll();
  return faults_.Tell();
}

proto::TapStatuses Session::SetTaps(const proto::SetTaps& wanted) {
  Lock lock(mutex_);
  taps_->Replace(wanted);
  Settle();
  return taps_->Tell();
}

proto::TapStatuses Session::DropTaps(const proto::DropTaps& wanted) {
  Lock lock(mutex_);
  taps_->Drop(wanted);
  Settle();
  return taps_->Tell();
}

proto::TapStatuses Session::ListTaps() {
  Lock lock(mutex_);
  if (taps_->Police(std::chrono::steady_clock::now())) Settle();
  return taps_->Tell(true);
}

ThreadState& Session::Stopped(uint32_t thread) {
  const auto it = threads_.find(thread);
  OPSTEP_CHECK(it != threads_.end(), "there is no thread ", thread);
  OPSTEP_CHECK(it->second->stopped, "thread ", thread, " is running: pause it first");
  return *it->second;
}

void Session::Resume(const proto::Resume& wanted, proto::Reply answer) {
  Lock lock(mutex_);
  // A step that begins now would watch a plan forever.
  OPSTEP_CHECK(attached_, "the executor has left the debugger");
  ThreadState& thread = Stopped(wanted.thread());
  const auto unit = wanted.unit() == proto::Resume::OP ? StepUnit::kOp : StepUnit::kLine;
  const int block = static_cast<int>(wanted.block());
  thread.entering = wanted.mode() == proto::Resume::INTO && unit == StepUnit::kLine && !block &&
                    thread.at.shown < thread.at.made->size();
  switch (wanted.mode()) {
    case proto::Resume::CONTINUE:
      thread.stepper.Cancel();
      break;
    case proto::Resume::OVER:
      thread.stepper.Start(StepMode::kOver, unit, thread.at);
      break;
    case proto::Resume::INTO:
      thread.stepper.Start(StepMode::kInto, unit, thread.at, block);
      break;
    case proto::Resume::OUT:
      thread.stepper.Start(StepMode::kOut, unit, thread.at);
      break;
    case proto::Resume::ITERATION:
      thread.stepper.Start(StepMode::kIteration, unit, thread.at);
      break;
    case proto::Resume::RUN:
      thread.stepper.Start(StepMode::kRun, unit, thread.at);
      FindOrBind(*thread.plan).end_watched = true;
      plans_.Watch(*thread.plan, FindOrBind(*thread.plan));
      break;
    default:
      Fail("this executor does not know that way to continue");
  }
  if (thread.stepper.AfterEveryOp() && !thread.entering) {
    FindOrBind(*thread.plan).after_armed = true;
    plans_.Watch(*thread.plan, FindOrBind(*thread.plan));
  }
  if (thread.stepper.EveryOp(thread.at.run))
    Arm(*thread.plan, FindOrBind(*thread.plan));
  else
    DisarmIfIdle();
  proto::FromExecutor message;
  *message.mutable_reply() = std::move(answer);
  // A step is mostly over within microseconds: then its answer and its stop are one message.
  if (thread.stepper.active())
    channel_->Put(std::move(message));
  else
    channel_->Send(std::move(message));
  thread.stopped = false;
  thread.released = true;
  thread.Wake();
}

void Session::Pause(uint32_t thread) {
  Lock lock(mutex_);
  if (thread) {
    const auto it = threads_.find(thread);
    OPSTEP_CHECK(it != threads_.end(), "there is no thread ", thread);
    OPSTEP_CHECK(!it->second->stopped, "thread ", thread, " is stopped already");
    it->second->pause = true;
  } else {
    stop_next_ = proto::STOP_PAUSE;
  }
  plans_.ForEach([&](const Plan& plan, BoundPlan& bound) { Arm(plan, bound); });
}

void Session::Detach(proto::Reply answer) {
  Lock lock(mutex_);
  logs_.Finish();
  proto::FromExecutor message;
  *message.mutable_reply() = std::move(answer);
  channel_->Send(std::move(message));
  // A server that rang gives way to the server given by the program.
  wanted_ = channel_->EndGuest();
  Leave(true);
  logs_.Clear();  // it is read before the answer
  if (!wanted_) channel_->CloseSoon();
}

void Session::SetPresence(bool present) {
  Lock lock(mutex_);
  OPSTEP_CHECK(connected_, "the executor has left the debugger");
  if (present == attached_) return;
  if (present)
    Arrive();
  else
    Depart();
  lock.unlock();
  welcomed_.notify_all();
}

void Session::Terminate(proto::Reply answer) {
  logs_.Finish();
  Answer(std::move(answer));
  channel_->Flush();
  ::kill(::getpid(), SIGTERM);
}

proto::Programs Session::Programs() {
  Lock lock(mutex_);
  proto::Programs programs;
  for (const auto& [program, version] : told_programs_) {
    const auto plan = plans_.OfProgram(program);
    if (plan) *programs.add_programs() = IsTraced(*plan) ? Describe(plans_) : Describe(*plan);
  }
  std::sort(programs.mutable_programs()->begin(), programs.mutable_programs()->end(),
            [](const auto& a, const auto& b) { return a.program() < b.program(); });
  return programs;
}

std::vector<std::shared_ptr<const Plan>> Session::PlansOf(uint32_t program) {
  Lock lock(mutex_);
  if (program == TracedProgram()) return plans_.Traced();
  auto plan = plans_.OfProgram(program);
  OPSTEP_CHECK(plan, told_programs_.contains(program)
                         ? Cat("program ", program, " is no longer in use")
                         : Cat("no program ", program, " has run"));
  return {std::move(plan)};
}

void Session::AskStopped(uint32_t thread, uint32_t stop, const proto::Command& command) {
  Lock lock(mutex_);
  ThreadState& asked = Stopped(thread);
  OPSTEP_CHECK(asked.stop.stop() == stop, "thread ", thread, " has gone on since stop ", stop,
               ": ask again for where it is now");
  OPSTEP_CHECK(asked.jobs.size() < kMostJobs, "thread ", thread, " has ", kMostJobs,
               " questions to answer: wait for some of the answers");
  asked.jobs.emplace_back(epoch_, command);
  asked.Wake();
}

void Session::Cancel(uint64_t command) {
  Lock lock(mutex_);
  for (auto& [id, thread] : threads_) {
    if (thread->answering == command) thread->cancelled = true;
    const auto job = std::find_if(thread->jobs.begin(), thread->jobs.end(), [&](const auto& job) {
      return job.first == epoch_ && job.second.id() == command;
    });
    if (job == thread->jobs.end()) continue;
    thread->jobs.erase(job);
    Answer(ErrorReply(command, "the command was cancelled"));
  }
}

void Session::Answer(proto::Reply reply) {
  if (reply.ByteSizeLong() > Channel::kMessageLimit - 1024) {
    reply = ErrorReply(reply.command(), "the answer is larger than the 4 MiB that the wire allows");
  }
  proto::FromExecutor message;
  *message.mutable_reply() = std::move(reply);
  channel_->Send(std::move(message));
}

}  // namespace opstep
