// Session: its beginning and end, the channel's events, users who come and go.
#include "debug/session/session.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "debug/policy.h"

namespace opstep {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<uint64_t> sessions{0};

// How long a process that ends waits until the records of its taps are confirmed.
constexpr std::chrono::milliseconds kLastRecords{2000};

// How long the end of a run waits for the server to show its log lines: as long as the first run
// waits for the server, so a launched program waits longer than one that is attached to.
std::chrono::duration<double> LogPatience(const AgentOptions& options) {
  return std::chrono::duration<double>(std::clamp(options.wait_seconds, 0.2, 10.0));
}

void TellLost(uint64_t logs) {
  if (logs == 0) return;
  std::fprintf(stderr,
               "opstep: up to %llu messages of log points are lost: the debug server left or was "
               "too slow before it had read them\n",
               static_cast<unsigned long long>(logs));
}

// Regenerated after fork.
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

}  // namespace

Session::Session(AgentOptions options, std::shared_ptr<Taps> taps)
    : options_(std::move(options)),
      policy_(PolicyNamed(options_.policy)),
      id_(++sessions),
      channel_(std::make_unique<Channel>(
          Destination{options_.address, options_.token, options_.root_certificates},
          MakeHello(options_), this)),
      logs_(
          [this](proto::Logs&& logs) {
            proto::FromExecutor message;
            *message.mutable_logs() = std::move(logs);
            return channel_->Send(std::move(message));
          },
          LogPatience(options_)),
      taps_(std::move(taps)),
      tap_runs_(mutex_, plans_, *taps_, [this] {
        BindAll();
        SendChanges();
      }) {
  OPSTEP_CHECK(policy_ != proto::POLICY_UNSPECIFIED,
               "the debugger's policy is full, observe or log-only, not '", options_.policy, "'");
  if (!MayStop(policy_)) breakpoints_.Limit(&options_.taps);
}

void Session::Start() {
  // A year counts as forever.
  const double seconds = std::min(options_.wait_seconds, 3e7);
  wait_until_ = Clock::now() + std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6));
  // The hook is set before the server connects, so that the first run finds it and waits.
  settled_ = options_.wait_seconds <= 0;
  if (!settled_ || taps_->any()) SetHook(shared_from_this());
  channel_->Start();
}

void Session::Yield() {
  if (abandoned_) return;
  logs_.Close();
  {
    Lock lock(mutex_);
    wanted_ = false;
    settled_ = true;
    Leave(true);
    SetHook(nullptr);
    plans_.Clear();
    tap_runs_.Retire();
  }
  welcomed_.notify_all();
  channel_->Close();
}

void Session::Close() {
  if (abandoned_) return;
  logs_.Close();
  {
    Lock lock(mutex_);
    taps_->Stop();
  }
  std::vector<uint64_t> left;
  const uint64_t lost = taps_->sender().Close(kLastRecords, &left);
  if (lost > 0) {
    std::fprintf(stderr, "opstep: %llu tap records may be lost: no sink confirmed them in time\n",
                 static_cast<unsigned long long>(lost));
  }
  {
    Lock lock(mutex_);
    wanted_ = false;
    settled_ = true;
    if (connected_) {
      proto::FromExecutor message;
      *message.mutable_tap_statuses() = taps_->Tell();
      message.mutable_tap_statuses()->mutable_left()->Assign(left.begin(), left.end());
      if (message.tap_statuses().statuses_size() > 0) channel_->Send(std::move(message));
      message.mutable_goodbye();
      channel_->Send(std::move(message));
    }
    taps_->Clear();
    Leave(true);
  }
  welcomed_.notify_all();
  channel_->Close();
}

AgentState Session::state() {
  Lock lock(mutex_);
  return {wanted_, attached_, server_, refused_, {}};
}

void Session::Abandon() {
  abandoned_ = true;
  attached_ = false;
  settled_ = true;
  // Never destroyed: its channel's threads do not exist here and cannot be joined.
  new std::shared_ptr<Session>(shared_from_this());
  SetHook(nullptr);
  // The lock's holder does not exist here to release it; the watch bytes then stay set, and nobody
  // reads them. A thread that forked in a signal handler while it was stopped goes on.
  const Lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  plans_.Clear();
  for (auto& [id, thread] : threads_) thread->released = true;
}

// ---- the channel
// ---------------------------------------------------------------------------------

void Session::OnWelcome(const proto::Welcome& welcome) {
  {
    Lock lock(mutex_);
    if (!wanted_) return;
    ++epoch_;
    TellLost(logs_.Clear());  // records that a thread wrote while the last server left
    connected_ = true;
    server_ = channel_->address();
    settled_ = true;
    proto::SetBreakpoints wanted = welcome.breakpoints();
    const auto refused = KeepPermitted(policy_, &wanted);
    breakpoints_.Replace(wanted);
    if (MayStop(policy_)) faults_.Replace(welcome.fault_filters());
    if (welcome.stop_on_entry() && MayStop(policy_)) stop_next_ = proto::STOP_ENTRY;
    if (welcome.has_taps()) {
      try {
        taps_->Replace(welcome.taps());
      } catch (const std::exception& error) {
        std::fprintf(stderr, "opstep: taps could not be set: %s\n", error.what());
      }
    }
    taps_->sender().Connect(
        {[this](proto::FromExecutor&& message) { channel_->Send(std::move(message)); },
         [this] { return channel_->unsent(); }});
    if (welcome.present())
      Arrive();
    else
      Settle();
    TellPrograms();
    SendChanges();
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
  Settle();
  // Threads that waited for a server to come back are still stopped.
  for (auto& [id, thread] : threads_) {
    if (!thread->stopped) continue;
    FindOrBind(*thread->plan);
    proto::FromExecutor message;
    *message.mutable_stopped() = Announce(*thread).stop;
    channel_->Send(std::move(message));
  }
  TellPrograms();
  SendChanges();
}

void Session::Settle() {
  if (attached_ || taps_->any()) {
    if (!attached_) {
      plans_.ForEach([](const Plan&, BoundPlan& bound) {
        bound.armed = bound.after_armed = bound.end_watched = false;
      });
    }
    BindAll();
    SetHook(shared_from_this());
    return;
  }
  SetHook(nullptr);
  plans_.Clear();
  for (auto& [id, thread] : threads_) thread->taps.plan = 0;
}

// Nobody uses it any more: as without a server, but the server keeps what it was told.
void Session::Depart() {
  attached_ = false;
  Settle();
  stop_next_.reset();
  for (auto& [id, thread] : threads_) {
    thread->stepper.Cancel();
    thread->pause = false;
    if (!thread->stopped || thread->released) continue;
    thread->stopped = false;
    thread->released = true;
    thread->cancelled = true;
    proto::FromExecutor message;
    message.mutable_continued()->set_thread(id);
    message.mutable_continued()->set_by_itself(true);
    message.mutable_continued()->set_message("went on: nobody debugs it any more");
    channel_->Send(std::move(message));
    thread->Wake();
  }
}

std::string Session::RequestTap(const std::string& text, double seconds) {
  Lock lock(mutex_);
  OPSTEP_CHECK(connected_, "there is no debug server to set the tap: connect to one first");
  const uint64_t number = ++last_request_;
  proto::FromExecutor message;
  message.mutable_tap_request()->set_id(number);
  message.mutable_tap_request()->set_text(text);
  channel_->Send(std::move(message));
  const bool answered = tap_answered_.wait_for(lock, std::chrono::duration<double>(seconds), [&] {
    return tap_answers_.contains(number) || !connected_;
  });
  const auto answer = tap_answers_.extract(number);
  if (answer && answer.mapped().error().empty()) return answer.mapped().uid();
  if (answer) Fail(answer.mapped().error());
  Fail(answered ? "the debug server went away before it set the tap"
                : Cat("the debug server did not set the tap within ", seconds, " s"));
}

void Session::OnTapAnswer(const proto::TapAnswer& answer) {
  {
    Lock lock(mutex_);
    if (answer.id() > last_request_) return;
    tap_answers_[answer.id()] = answer;
  }
  tap_answered_.notify_all();
}

void Session::OnCommand(const proto::Command& command) {
  const std::string forbidden = Forbidden(policy_, command);
  if (forbidden.empty())
    RunCommand(command, *this);
  else
    Answer(ErrorReply(command.id(), forbidden));
}

void Session::OnClosed(const std::string& why, bool final, bool read_all) {
  Lock lock(mutex_);
  const uint64_t lost = logs_.Clear();
  if (!read_all) TellLost(lost);
  if (final && wanted_) {
    wanted_ = false;
    // A server that rang and left is not worth a line: others may ring.
    if (!connected_ && !options_.address.empty()) {
      refused_ = why;
      std::fprintf(stderr, "opstep: no debugger: %s\n", why.c_str());
    }
  }
  if (final) settled_ = true;
  if (connected_)
    Leave(!options_.wait_on_disconnect || !wanted_);
  else if (final)
    Settle();
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
  Settle();
  std::fprintf(stderr,
               "opstep: no debug server answers at %s: running without it and trying again\n",
               options_.address.c_str());
}

// Nothing of the debugger is left in the process except threads that must wait.
void Session::Leave(bool go_on) {
  tap_answered_.notify_all();
  attached_ = connected_ = false;
  server_.clear();
  breakpoints_.Clear();
  faults_.Clear();
  taps_->sender().Disconnect();
  taps_->ServerGone();
  Settle();
  told_programs_.clear();
  stop_next_.reset();
  for (auto& [id, thread] : threads_) {
    thread->announced = false;
    thread->stepper.Cancel();
    thread->pause = false;
    thread->jobs.clear();
    thread->cancelled = true;  // the command being answered: nobody waits for it
    if (go_on) {
      // The next server must not hear of a stop that is over.
      thread->stopped = false;
      thread->released = true;
      thread->Wake();
    }
  }
}

}  // namespace opstep
