// The part of the session that runs on the user's threads.
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "debug/policy.h"
#include "debug/session.h"
#include "debug/stops.h"

namespace opstep {
namespace {

using Clock = std::chrono::steady_clock;

// The thread's part in the session that it met last; its destructor tells that the thread ended.
struct ThreadSlot {
  uint64_t session_id = 0;
  std::weak_ptr<Session> session;
  std::shared_ptr<ThreadState> state;
  ~ThreadSlot() {
    if (const auto last = session.lock()) last->ThreadEnded(*state);
  }
};
thread_local ThreadSlot this_thread;

// No mistake of the debugger's may end the run: only Ctrl-C may.
template <typename F>
void Guarded(F&& f) {
  try {
    f();
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "opstep: the debugger failed and the run goes on: %s\n", error.what());
  }
}

Position PositionOf(const ThreadState& thread, const KnownPlan& known, const Activation& where) {
  const OpFacts& facts = known.At(where);
  return {thread.run, known.depth[where.block], where.block, where.iteration, facts.line,
          facts.quiet};
}

// One number for one entry into a block: all iterations around it count.
uint64_t EntryKey(const ThreadState& thread, const Activation* where, uint32_t run_start) {
  uint64_t key = 1469598103934665603u;
  const auto mix = [&key](uint64_t value) { key = (key ^ value) * 1099511628211u; };
  mix(thread.run);
  mix(run_start);
  for (; where; where = where->parent) {
    mix(static_cast<uint64_t>(where->block));
    mix(where->iteration);
  }
  return key;
}

}  // namespace

struct Session::Request {
  std::optional<proto::StopReason> reason;
  std::string message;
  std::vector<uint32_t> breakpoints;
};

std::shared_ptr<ThreadState> Session::ThisThread() {
  if (this_thread.session_id == id_) return this_thread.state;
  auto state = std::make_shared<ThreadState>();
  const long tid = ::syscall(SYS_gettid);
  state->name = tid == ::getpid() ? "main" : "thread " + std::to_string(tid);
  Lock lock(mutex_);
  state->id = ++last_thread_;
  threads_[state->id] = state;
  this_thread.session_id = id_;
  this_thread.session = weak_from_this();
  this_thread.state = state;
  return state;
}

ThreadState& Session::Announce(ThreadState& thread) {
  if (thread.announced) return thread;
  thread.announced = true;
  proto::FromExecutor message;
  message.mutable_thread()->set_thread(thread.id);
  message.mutable_thread()->set_name(thread.name);
  channel_->Send(std::move(message));
  return thread;
}

void Session::ThreadEnded(ThreadState& thread) {
  if (abandoned_) return;
  Lock lock(mutex_);
  if (thread.announced) {
    proto::FromExecutor message;
    message.mutable_thread()->set_thread(thread.id);
    message.mutable_thread()->set_name(thread.name);
    message.mutable_thread()->set_ended(true);
    channel_->Send(std::move(message));
  }
  threads_.erase(thread.id);
  DisarmIfIdle();
}

void Session::EnterBlock(const FrameView& frame) {
  if (abandoned_) return;
  Guarded([&] {
    ThreadState& thread = *ThisThread();
    if (!frame.top().parent) {
      ++thread.run;
      thread.unwinding = false;
      thread.before.clear();
      thread.fired.clear();
    }
    if (!settled_) WaitForWelcome();
    Lock lock(mutex_);
    if (!attached_) return;
    Announce(thread);
    const std::shared_ptr<KnownPlan> known = Know(frame.plan());
    if (stop_next_ || thread.pause || thread.stepper.active()) Arm(frame.plan(), *known);
  });
}

// Those breakpoints whose conditions hold, or fail: nobody would learn otherwise that one never
// stops.
std::vector<uint32_t> Session::Hits(const std::vector<Binding>& bindings, ThreadState& thread,
                                    const FrameView& frame, std::string* failure) {
  std::vector<uint32_t> hits;
  for (const Binding& binding : bindings) {
    const uint64_t key = EntryKey(thread, &frame.top(), binding.run_start);
    if (binding.once_in_run) {
      const auto fired = thread.fired.find(binding.breakpoint);
      if (fired != thread.fired.end() && fired->second == key) continue;
    }
    try {
      if (binding.condition && !binding.condition->Test({frame, frame.top()})) continue;
    } catch (const Error& error) {
      Lock lock(mutex_);
      breakpoints_.ConditionFailed(binding.breakpoint, error.what());
      SendChanges();
      *failure = Cat("the condition of breakpoint ", binding.breakpoint, " failed: ", error.what());
    }
    if (binding.once_in_run) thread.fired[binding.breakpoint] = key;
    hits.push_back(binding.breakpoint);
  }
  return hits;
}

void Session::BeforeOp(const FrameView& frame) {
  if (!attached_) return;
  Guarded([&] {
    ThreadState& thread = *ThisThread();
    Request request;
    std::vector<Binding> bindings;
    bool look = false;
    {
      Lock lock(mutex_);
      if (!attached_) return;
      const std::shared_ptr<KnownPlan> known = Know(frame.plan());
      const OpFacts& facts = known->At(frame.top());
      thread.at = PositionOf(thread, *known, frame.top());
      look = scanning() && facts.rewrites_input;
      for (const Binding& binding : facts.bindings) {
        if (!binding.after) bindings.push_back(binding);
      }
      if (stop_next_ || thread.pause) {
        request.reason = stop_next_.value_or(proto::STOP_PAUSE);
        stop_next_.reset();
        thread.pause = false;
      } else if (thread.stepper.EndsAt(thread.at)) {
        request.reason = proto::STOP_STEP;
      }
    }
    if (look) thread.before[frame.top().instruction] = LookAtRewritten(frame);
    request.breakpoints = Hits(bindings, thread, frame, &request.message);
    if (request.reason || !request.breakpoints.empty()) Stop(thread, frame, std::move(request));
  });
}

void Session::AfterOp(const FrameView& frame) {
  if (!attached_) return;
  Guarded([&] {
    ThreadState& thread = *ThisThread();
    Request request;
    std::vector<Binding> bindings;
    proto::SetExceptions wanted;
    bool look = false;
    {
      Lock lock(mutex_);
      if (!attached_) return;
      const std::shared_ptr<KnownPlan> known = Know(frame.plan());
      const OpFacts& facts = known->At(frame.top());
      thread.at = PositionOf(thread, *known, frame.top());
      look = scanning() && facts.float_outputs;
      if (look) wanted = exceptions_;
      for (const Binding& binding : facts.bindings) {
        if (binding.after) bindings.push_back(binding);
      }
    }
    if (look) {
      const auto before = thread.before.extract(frame.top().instruction);
      if (auto found = FindMade(frame, wanted, before ? before.mapped() : BadNumbers{})) {
        request.reason = found->reason;
        request.message = std::move(found->message);
      }
    }
    request.breakpoints = Hits(bindings, thread, frame, &request.message);
    if (request.reason || !request.breakpoints.empty()) Stop(thread, frame, std::move(request));
  });
}

void Session::OnError(const FrameView& frame, const Error& error) {
  if (!attached_) return;
  Guarded([&] {
    ThreadState& thread = *ThisThread();
    if (std::exchange(thread.unwinding, true)) return;
    {
      Lock lock(mutex_);
      if (!attached_ || !Wants(exceptions_, proto::FAULT_ERROR)) return;
      thread.at = PositionOf(thread, *Know(frame.plan()), frame.top());
    }
    Stop(thread, frame, {proto::STOP_ERROR, error.what(), {}});
  });
}

void Session::Stop(ThreadState& thread, const FrameView& frame, Request request) {
  if (!MayStop(policy_)) return;
  proto::Stopped stopped;
  FillFrames(frame, &stopped);
  Lock lock(mutex_);
  if (!attached_) return;
  bool gone = false;
  for (uint32_t id : request.breakpoints) {
    if (breakpoints_.Take(id, &gone)) stopped.add_breakpoints(id);
  }
  if (gone) BindAll();
  if (!request.reason) {
    if (stopped.breakpoints().empty()) return;
    request.reason = proto::STOP_BREAKPOINT;
  } else if (request.reason == proto::STOP_STEP && !stopped.breakpoints().empty()) {
    request.reason = proto::STOP_BREAKPOINT;
  }
  Announce(thread);
  thread.stepper.Cancel();
  stopped.set_thread(thread.id);
  stopped.set_stop(++last_stop_);
  stopped.set_reason(*request.reason);
  stopped.set_message(request.message);
  thread.stop = stopped;
  thread.stopped = true;
  thread.released = false;
  thread.plan = &frame.plan();
  proto::FromExecutor message;
  *message.mutable_stopped() = std::move(stopped);
  channel_->Send(std::move(message));
  Wait(lock, thread, frame);
}

void Session::Wait(Lock& lock, ThreadState& thread, const FrameView& frame) {
  const Clock::time_point since = Clock::now();
  Clock::time_point poll = since + std::chrono::milliseconds(100);
  const auto leave = [&](const std::string& by_itself) {
    thread.stopped = false;
    thread.plan = nullptr;
    for (auto& [epoch, command] : thread.jobs) {
      if (epoch == epoch_)
        Answer(ErrorReply(command.id(), Cat("thread ", thread.id, " has gone on")));
    }
    thread.jobs.clear();
    if (by_itself.empty() || !attached_) return;
    DisarmIfIdle();
    proto::FromExecutor message;
    message.mutable_continued()->set_thread(thread.id);
    message.mutable_continued()->set_by_itself(true);
    message.mutable_continued()->set_message(by_itself);
    channel_->Send(std::move(message));
  };
  try {
    while (true) {
      if (!thread.jobs.empty()) {
        const auto [epoch, command] = std::move(thread.jobs.front());
        thread.jobs.pop_front();
        lock.unlock();
        proto::Reply reply = AnswerStopped(command, frame);
        lock.lock();
        if (epoch == epoch_ && connected_) Answer(std::move(reply));
        continue;
      }
      if (thread.released) return leave("");
      const std::chrono::duration<double> waited = Clock::now() - since;
      if (options_.max_pause_seconds > 0 && waited.count() >= options_.max_pause_seconds) {
        return leave(
            Cat("went on after the longest pause allowed, ", options_.max_pause_seconds, " s"));
      }
      thread.wake.wait_until(lock, poll);
      if (Clock::now() < poll) continue;
      poll = Clock::now() + std::chrono::milliseconds(100);
      lock.unlock();
      PollInterrupt();
      lock.lock();
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    leave("the program was interrupted");
    throw;
  }
}

}  // namespace opstep
