#include "debug/session.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <random>

#include "debug/policy.h"

namespace opstep {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<uint64_t> sessions{0};

// Another one in a forked child.
const std::string& Identity() {
  static std::string identity;
  static pid_t of = 0;
  if (of != ::getpid()) {
    of = ::getpid();
    std::random_device random;
    char text[33] = "";
    for (int i = 0; i < 4; ++i) std::snprintf(text + 8 * i, 9, "%08x", random());
    identity = text;
  }
  return identity;
}

proto::Hello MakeHello(const AgentOptions& options) {
  proto::Hello hello;
  hello.set_protocol(Channel::kProtocol);
  hello.set_pid(::getpid());
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  hello.set_host(host);
  for (const std::string& arg : options.argv) hello.add_argv(arg);
  hello.set_opstep_version(options.version);
  hello.set_rank(options.rank);
  hello.set_policy(PolicyNamed(options.policy));
  hello.set_identity(Identity());
  return hello;
}

proto::ProgramEvent Describe(const Plan& plan) {
  proto::ProgramEvent event;
  event.set_program(plan.program_id);
  event.set_name(plan.program_name);
  event.set_version(plan.program_version);
  int ops = 0;
  for (const proto::BlockDesc& block : plan.desc.blocks()) ops += block.ops_size();
  event.set_op_count(static_cast<uint32_t>(ops));
  event.set_block_count(static_cast<uint32_t>(plan.desc.blocks_size()));
  event.set_planned_bytes(plan.fast_bytes);
  event.set_compile_ms(plan.compile_ms);
  return event;
}

}  // namespace

Session::Session(AgentOptions options)
    : options_(std::move(options)),
      policy_(PolicyNamed(options_.policy)),
      id_(++sessions),
      channel_(std::make_unique<Channel>(
          Destination{options_.address, options_.token, options_.root_certificates},
          MakeHello(options_), this)),
      logs_([this](proto::Logs&& logs) {
        proto::FromExecutor message;
        *message.mutable_logs() = std::move(logs);
        channel_->Send(std::move(message));
      }) {
  OPSTEP_CHECK(policy_ != proto::POLICY_UNSPECIFIED,
               "the debugger's policy is full, observe or log-only, not '", options_.policy, "'");
}

void Session::Start() {
  wait_until_ =
      Clock::now() + std::chrono::microseconds(static_cast<int64_t>(options_.wait_seconds * 1e6));
  // The hook is there before the server is, so that the first run finds it and waits.
  settled_ = options_.wait_seconds <= 0;
  if (!settled_) SetHook(shared_from_this());
  channel_->Start();
}

void Session::Close() {
  if (abandoned_) return;
  logs_.Close();
  {
    Lock lock(mutex_);
    wanted_ = false;
    settled_ = true;
    if (connected_) {
      proto::FromExecutor message;
      message.mutable_goodbye();
      channel_->Send(std::move(message));
    }
    Leave(true);
  }
  welcomed_.notify_all();
  channel_->Close();
}

AgentState Session::state() {
  Lock lock(mutex_);
  return {wanted_, attached_, server_, refused_};
}

void Session::Abandon() {
  abandoned_ = true;
  attached_ = false;
  settled_ = true;
  // Kept for ever: its channel's threads do not exist here and cannot be joined.
  new std::shared_ptr<Session>(shared_from_this());
  SetHook(nullptr);
  // Whoever held the lock is not here to give it back; the watch bytes then stay, and nobody asks
  // them.
  if (mutex_.try_lock()) plans_.Clear();
}

// ---- the channel
// ---------------------------------------------------------------------------------

void Session::OnWelcome(const proto::Welcome& welcome) {
  {
    Lock lock(mutex_);
    if (!wanted_) return;
    ++epoch_;
    connected_ = true;
    server_ = channel_->address();
    settled_ = true;
    proto::SetBreakpoints wanted = welcome.breakpoints();
    const auto refused = KeepPermitted(policy_, &wanted);
    breakpoints_.Replace(wanted);
    if (MayStop(policy_)) faults_.Replace(welcome.exceptions());
    if (welcome.stop_on_entry() && MayStop(policy_)) stop_next_ = proto::STOP_ENTRY;
    if (welcome.present())
      Arrive();
    else
      SetHook(nullptr);
    for (const proto::BreakpointStatus& status : refused) {
      proto::FromExecutor message;
      *message.mutable_breakpoint()->mutable_status() = status;
      channel_->Send(std::move(message));
    }
  }
  welcomed_.notify_all();
}

// Somebody uses the server.
void Session::Arrive() {
  attached_ = true;
  SetHook(shared_from_this());
  // Threads that waited for a server to come back are still where they were.
  for (auto& [id, thread] : threads_) {
    if (!thread->stopped) continue;
    Know(*thread->plan);
    proto::FromExecutor message;
    *message.mutable_stopped() = Announce(*thread).stop;
    channel_->Send(std::move(message));
  }
  SendChanges();
}

// Nobody does any more: as without a server, but what it was told stays known to it.
void Session::Depart() {
  attached_ = false;
  SetHook(nullptr);
  plans_.Clear();
  stop_next_.reset();
  for (auto& [id, thread] : threads_) {
    thread->stepper.Cancel();
    thread->pause = false;
    if (!thread->stopped || thread->released) continue;
    thread->stopped = false;
    thread->released = true;
    proto::FromExecutor message;
    message.mutable_continued()->set_thread(id);
    message.mutable_continued()->set_by_itself(true);
    message.mutable_continued()->set_message("went on: nobody debugs it any more");
    channel_->Send(std::move(message));
    thread->wake.notify_all();
  }
}

void Session::OnCommand(const proto::Command& command) {
  const std::string forbidden = Forbidden(policy_, command);
  if (forbidden.empty())
    RunCommand(command, *this);
  else
    Answer(ErrorReply(command.id(), forbidden));
}

void Session::OnClosed(const std::string& why, bool final) {
  Lock lock(mutex_);
  if (final && wanted_) {
    wanted_ = false;
    if (!connected_) {
      refused_ = why;
      // Whoever rang and left is not worth a line.
      if (!options_.address.empty()) std::fprintf(stderr, "opstep: no debugger: %s\n", why.c_str());
    }
  }
  if (final) settled_ = true;
  if (connected_)
    Leave(!options_.wait_on_disconnect || !wanted_);
  else if (final)
    SetHook(nullptr);
  lock.unlock();
  welcomed_.notify_all();
}

bool Session::WaitsForGuest() {
  Lock lock(mutex_);
  if (!options_.wait_on_disconnect || !wanted_) return false;
  return std::any_of(threads_.begin(), threads_.end(),
                     [](const auto& entry) { return entry.second->stopped; });
}

void Session::WaitForWelcome() {
  Lock lock(mutex_);
  while (!settled_ && Clock::now() < wait_until_) {
    const auto poll = Clock::now() + std::chrono::milliseconds(100);
    welcomed_.wait_until(lock, std::min(poll, wait_until_));
    lock.unlock();
    PollInterrupt();
    lock.lock();
  }
  if (settled_) return;
  settled_ = true;
  SetHook(nullptr);
}

// Nothing of the debugger is left in the process but threads that are to wait.
void Session::Leave(bool go_on) {
  attached_ = connected_ = false;
  server_.clear();
  SetHook(nullptr);
  plans_.Clear();
  breakpoints_.Clear();
  faults_.Clear();
  logs_.Clear();
  told_programs_.clear();
  stop_next_.reset();
  for (auto& [id, thread] : threads_) {
    thread->announced = false;
    thread->stepper.Cancel();
    thread->pause = false;
    thread->jobs.clear();
    if (go_on) {
      thread->released = true;
      thread->wake.notify_all();
    }
  }
}

// ---- plans
// ---------------------------------------------------------------------------------------

KnownPlan& Session::Know(const Plan& plan) {
  if (KnownPlan* known = plans_.Find(plan.id)) return *known;
  KnownPlan& known = plans_.Add(plan);
  Bind(plan, known);
  const auto told = told_programs_.find(plan.program_id);
  if (told == told_programs_.end() || told->second != plan.program_version) {
    told_programs_[plan.program_id] = plan.program_version;
    proto::FromExecutor message;
    *message.mutable_program() = Describe(plan);
    channel_->Send(std::move(message));
  }
  SendChanges();
  return known;
}

void Session::Bind(const Plan& plan, KnownPlan& known) {
  known.ClearWork();
  breakpoints_.Bind(plan, known);
  faults_.Bind(plan, known);
  plans_.Watch(plan, known);
}

void Session::BindAll() {
  plans_.ForEach([&](const Plan& plan, KnownPlan& known) { Bind(plan, known); });
}

void Session::Arm(const Plan& plan, KnownPlan& known) {
  if (known.armed) return;
  known.armed = true;
  plans_.Watch(plan, known);
}

void Session::DisarmIfIdle() {
  bool every = stop_next_.has_value(), end = false;
  for (const auto& [id, thread] : threads_) {
    every |= thread->pause || thread->stepper.EveryOp(thread->at.run);
    end |= thread->stepper.EndsWithRun(thread->at.run);
  }
  plans_.ForEach([&](const Plan& plan, KnownPlan& known) {
    if (known.armed <= every && known.end_watched <= end) return;
    known.armed &= every;
    known.end_watched &= end;
    plans_.Watch(plan, known);
  });
}

void Session::SendChanges() {
  for (proto::BreakpointStatus& status : breakpoints_.TakeChanges()) {
    proto::FromExecutor message;
    *message.mutable_breakpoint()->mutable_status() = std::move(status);
    channel_->Send(std::move(message));
  }
  if (auto faults = faults_.TakeChanges()) {
    proto::FromExecutor message;
    *message.mutable_faults() = std::move(*faults);
    channel_->Send(std::move(message));
  }
}

// ---- commands
// ------------------------------------------------------------------------------------

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

proto::FaultStatuses Session::SetExceptions(const proto::SetExceptions& wanted) {
  Lock lock(mutex_);
  faults_.Replace(wanted);
  BindAll();
  return faults_.Tell();
}

ThreadState& Session::Stopped(uint32_t thread) {
  const auto it = threads_.find(thread);
  OPSTEP_CHECK(it != threads_.end(), "there is no thread ", thread);
  OPSTEP_CHECK(it->second->stopped, "thread ", thread, " is running: pause it first");
  return *it->second;
}

void Session::Resume(const proto::Resume& wanted, proto::Reply answer) {
  Lock lock(mutex_);
  // A step that begins now would watch a plan for ever.
  OPSTEP_CHECK(attached_, "the executor has left the debugger");
  ThreadState& thread = Stopped(wanted.thread());
  const auto unit = wanted.unit() == proto::Resume::OP ? StepUnit::kOp : StepUnit::kLine;
  const int block = static_cast<int>(wanted.block());
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
      Know(*thread.plan).end_watched = true;
      plans_.Watch(*thread.plan, Know(*thread.plan));
      break;
    default:
      Fail("this executor does not know that way of going on");
  }
  if (thread.stepper.EveryOp(thread.at.run))
    Arm(*thread.plan, Know(*thread.plan));
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
  thread.wake.notify_all();
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
  plans_.ForEach([&](const Plan& plan, KnownPlan& known) { Arm(plan, known); });
}

void Session::Detach(proto::Reply answer) {
  Lock lock(mutex_);
  logs_.Flush();
  proto::FromExecutor message;
  *message.mutable_reply() = std::move(answer);
  channel_->Send(std::move(message));
  // A server that rang leaves the place to the one that we were told to dial.
  wanted_ = channel_->EndGuest();
  Leave(true);
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
  logs_.Flush();
  Answer(std::move(answer));
  channel_->Flush();
  ::kill(::getpid(), SIGTERM);
}

proto::Programs Session::Programs() {
  Lock lock(mutex_);
  proto::Programs programs;
  for (const auto& [program, version] : told_programs_) {
    if (const auto plan = plans_.OfProgram(program)) *programs.add_programs() = Describe(*plan);
  }
  std::sort(programs.mutable_programs()->begin(), programs.mutable_programs()->end(),
            [](const auto& a, const auto& b) { return a.program() < b.program(); });
  return programs;
}

std::shared_ptr<const Plan> Session::PlanOf(uint32_t program) {
  Lock lock(mutex_);
  auto plan = plans_.OfProgram(program);
  OPSTEP_CHECK(plan, told_programs_.contains(program)
                         ? Cat("program ", program, " is no longer in use")
                         : Cat("no program ", program, " has run"));
  return plan;
}

void Session::AskStopped(uint32_t thread, uint32_t stop, const proto::Command& command) {
  Lock lock(mutex_);
  ThreadState& asked = Stopped(thread);
  OPSTEP_CHECK(asked.stop.stop() == stop, "thread ", thread, " has gone on since stop ", stop,
               ": ask again for where it is now");
  asked.jobs.emplace_back(epoch_, command);
  asked.wake.notify_all();
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
    Answer(ErrorReply(command, "the command was given up"));
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
