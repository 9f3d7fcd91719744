// The part of the session that runs on the user's threads.
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

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

// A stop that is over sooner was not one for a person to look at. The next one is waited through
// awake: to wake a thread takes as long as half of such a step.
constexpr std::chrono::microseconds kHurry{1500};

void StayAwake(const std::atomic<uint32_t>& signals, uint32_t seen, Clock::time_point until) {
  while (signals.load(std::memory_order_acquire) == seen && Clock::now() < until) {
    for (int i = 0; i < 20; ++i) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    std::this_thread::yield();  // whoever it waits for may need this core
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
  std::optional<proto::Fault> fault;
};

ThreadState& Session::ThisThread() {
  if (this_thread.session_id == id_) return *this_thread.state;
  auto state = std::make_shared<ThreadState>();
  const long tid = ::syscall(SYS_gettid);
  state->name = tid == ::getpid() ? "main" : "thread " + std::to_string(tid);
  Lock lock(mutex_);
  state->id = ++last_thread_;
  threads_[state->id] = state;
  this_thread.session_id = id_;
  this_thread.session = weak_from_this();
  this_thread.state = state;
  return *state;
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
  EndTaps(thread);
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

// The watch bytes of a plan that taps look at are set only in runs that one of them is due in.
void Session::StartTaps(ThreadState& thread, const FrameView& frame, KnownPlan& known) {
  thread.taps_version = taps_->version();
  if (taps_->Police(Clock::now())) {
    BindAll();
    SendChanges();
  }
  const bool due = taps_->Due(known, frame.step());
  if (due && thread.tapped == frame.plan().id) return;
  EndTaps(thread);
  if (!due) return;
  thread.tapped = frame.plan().id;
  if (known.tapped++ == 0) plans_.Watch(frame.plan(), known);
}

// The run that the thread was in is over, or nobody looks at it any more.
void Session::EndTaps(ThreadState& thread) {
  KnownPlan* known = thread.tapped ? plans_.Find(thread.tapped) : nullptr;
  thread.tapped = 0;
  if (known == nullptr || --known->tapped > 0) return;
  if (const std::shared_ptr<const Plan> plan = known->plan.lock()) plans_.Watch(*plan, *known);
}

void Session::RunTaps(const FrameView& frame) {
  if (!taps_->any()) return;
  const ThreadState& thread = ThisThread();
  std::shared_ptr<const OpWork> work;
  {
    Lock lock(mutex_);
    if (const KnownPlan* known = plans_.Find(frame.plan().id)) work = known->At(frame.top()).work;
  }
  if (work) taps_->Visit(frame.after() ? work->taps_after : work->taps_before, frame, thread.id);
}

void Session::EnterBlock(const FrameView& frame) {
  if (abandoned_) return;
  Guarded([&] {
    ThreadState& thread = ThisThread();
    // A body of a loop is entered often: with taps alone there is nothing new about it.
    const bool starts = !frame.top().parent;
    if (!starts && !attached_ && settled_ && thread.taps_version == taps_->version()) return;
    if (starts) {
      ++thread.run;
      thread.unwinding = false;
      thread.before.clear();
      thread.contents.clear();
      thread.fired.clear();
      if (std::exchange(thread.latest_plan, frame.plan().id) != frame.plan().id)
        thread.clean.clear();
    }
    if (!settled_) WaitForWelcome();
    Lock lock(mutex_);
    if (!attached_ && !taps_->any()) return;
    std::shared_ptr<PythonNames> python;
    if (!plans_.Find(frame.plan().id)) {
      // Conditions may use Python's names: they are bound here, or later by a thread without
      // Python.
      lock.unlock();
      python = std::make_shared<PythonNames>();
      python->Read();
      lock.lock();
      if (!attached_ && !taps_->any()) return;
    }
    KnownPlan& known = Know(frame.plan(), std::move(python));
    if (starts || thread.taps_version != taps_->version()) StartTaps(thread, frame, known);
    if (!attached_) return;
    Announce(thread);
    thread.at.run = thread.run;
    if (stop_next_ || thread.pause || thread.stepper.EveryOp(thread.run)) Arm(frame.plan(), known);
  });
}

// Which of the breakpoints stop the thread here; log points write their lines.
void Session::Visit(const std::vector<Binding>& bindings, ThreadState& thread,
                    const FrameView& frame, Request* request) {
  for (const Binding& binding : bindings) {
    uint64_t key = 0;
    if (binding.once_in_run) {
      key = EntryKey(thread, &frame.top(), binding.run_start);
      const auto fired = thread.fired.find(binding.breakpoint);
      if (fired != thread.fired.end() && fired->second == key) continue;
    }
    Content before, now;
    if (binding.written) {
      const auto seen = thread.contents.find({frame.top().instruction, binding.written});
      if (seen == thread.contents.end()) continue;  // It was set while the op ran.
      before = seen->second;
      now = LookAt(frame, binding.written);
      if (binding.changed && before == now) continue;
    }
    if (binding.condition && !Holds(binding, frame, request)) continue;
    if (binding.once_in_run) thread.fired[binding.breakpoint] = key;
    if (binding.hits && !binding.hits->Visit()) continue;
    if (binding.log) {
      Log(binding, thread, frame);
      continue;
    }
    request->breakpoints.push_back(binding.breakpoint);
    if (binding.written && request->message.empty()) {
      request->message = TellWrite(frame, binding.written, before, now);
    }
  }
}

// One that fails holds, unless it would only log: nobody would learn otherwise that it never stops.
bool Session::Holds(const Binding& binding, const FrameView& frame, Request* request) {
  try {
    return binding.condition->Test({frame, frame.top()});
  } catch (const Error& error) {
    Lock lock(mutex_);
    breakpoints_.ConditionFailed(binding.breakpoint, error.what());
    SendChanges();
    if (binding.log) return false;
    request->message =
        Cat("the condition of breakpoint ", binding.breakpoint, " failed: ", error.what());
    return true;
  }
}

void Session::Log(const Binding& binding, const ThreadState& thread, const FrameView& frame) {
  proto::LogRecord record;
  record.set_breakpoint(binding.breakpoint);
  record.set_thread(thread.id);
  record.set_step(frame.step());
  record.set_op(frame.top().instruction->op->name());
  binding.log->Write(frame, &record);
  logs_.Add(std::move(record));
}

void Session::BeforeOp(FrameEditor& frame) {
  Guarded([&] { RunTaps(frame); });
  if (!Debugs(frame)) return;
  Guarded([&] {
    ThreadState& thread = ThisThread();
    Request request;
    std::shared_ptr<const OpWork> work;
    bool rewrites = false;
    {
      Lock lock(mutex_);
      if (!attached_) return;
      const KnownPlan& known = Know(frame.plan());
      const OpFacts& facts = known.At(frame.top());
      thread.at = PositionOf(thread, known, frame.top());
      work = facts.work;
      rewrites = facts.rewrites_input;
      if (stop_next_ || thread.pause) {
        request.reason = stop_next_.value_or(proto::STOP_PAUSE);
        stop_next_.reset();
        thread.pause = false;
      } else if (facts.stop) {
        request.reason = proto::STOP_CODE;
      } else if (thread.stepper.EndsAt(thread.at)) {
        request.reason = proto::STOP_STEP;
      }
    }
    if (work) Visit(work->before, thread, frame, &request);
    if (request.reason || !request.breakpoints.empty()) {
      Stop(thread, frame, std::move(request));
      // Whoever stopped here may have set something that looks at this very op.
      Lock lock(mutex_);
      if (!attached_) return;
      work = Know(frame.plan()).At(frame.top()).work;
    }
    if (!work) return;
    // After the stop: whoever stopped here may have edited what the op will overwrite.
    const Instruction* instruction = frame.top().instruction;
    if (rewrites && !work->faults.empty()) {
      const auto clean = thread.clean.find(instruction);
      const bool known = clean != thread.clean.end() && clean->second.work == work &&
                         clean->second.step + 1 == frame.step();
      thread.before[instruction] =
          known ? BadNumbers{.assumed = true} : LookAtRewritten(frame, work->faults);
    }
    for (uint32_t slot : work->written) {
      thread.contents[{instruction, slot}] = LookAt(frame, slot);
    }
  });
}

void Session::AfterOp(FrameEditor& frame) {
  Guarded([&] { RunTaps(frame); });
  if (!Debugs(frame)) return;
  Guarded([&] {
    ThreadState& thread = ThisThread();
    Request request;
    std::shared_ptr<const OpWork> work;
    {
      Lock lock(mutex_);
      if (!attached_) return;
      const KnownPlan& known = Know(frame.plan());
      thread.at = PositionOf(thread, known, frame.top());
      work = known.At(frame.top()).work;
      if (known.IsLast(frame.top()) && thread.stepper.EndsAfterLast(thread.run)) {
        request.reason = proto::STOP_STEP;
      }
    }
    if (work) {
      if (!work->faults.empty()) {
        const Instruction* instruction = frame.top().instruction;
        auto before = thread.before.extract(instruction);
        bool clean = false;
        auto found = FindMade(frame, work->faults, before ? before.mapped() : BadNumbers{}, &clean);
        if (before && clean) {
          thread.clean[instruction] = {work, frame.step()};
        } else if (before) {
          thread.clean.erase(instruction);
        }
        if (found) {
          request.reason = found->reason;
          request.message = std::move(found->message);
          request.fault = std::move(found->fault);
        }
      }
      Visit(work->after, thread, frame, &request);
    }
    if (request.reason || !request.breakpoints.empty()) Stop(thread, frame, std::move(request));
  });
}

void Session::OnError(FrameEditor& frame, const Error& error) {
  if (!Debugs(frame)) return;
  Guarded([&] {
    ThreadState& thread = ThisThread();
    if (std::exchange(thread.unwinding, true)) return;
    std::shared_ptr<const OpWork> work;
    {
      Lock lock(mutex_);
      if (!attached_) return;
      const KnownPlan& known = Know(frame.plan());
      thread.at = PositionOf(thread, known, frame.top());
      work = known.At(frame.top()).work;
    }
    std::string failure;
    if (!work || !WantsError(frame, work->errors, &failure)) return;
    Stop(thread, frame, {proto::STOP_ERROR, error.what() + failure, {}, {}});
  });
}

void Session::Stop(ThreadState& thread, FrameEditor& frame, Request request) {
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
  } else if (!stopped.breakpoints().empty() &&
             (request.reason == proto::STOP_STEP || request.reason == proto::STOP_CODE)) {
    request.reason = proto::STOP_BREAKPOINT;
  }
  Announce(thread);
  thread.stepper.Cancel();
  thread.clean.clear();  // Values may be edited.
  stopped.set_thread(thread.id);
  stopped.set_stop(++last_stop_);
  stopped.set_reason(*request.reason);
  stopped.set_message(request.message);
  if (request.fault) *stopped.mutable_fault() = std::move(*request.fault);
  thread.stop = stopped;
  thread.stopped = true;
  thread.released = false;
  thread.plan = &frame.plan();
  logs_.Flush();  // what was written before the stop is read before it
  proto::FromExecutor message;
  *message.mutable_stopped() = std::move(stopped);
  channel_->Put(std::move(message));
  lock.unlock();
  channel_->Write();
  lock.lock();
  Wait(lock, thread, frame);
  // What was tapped meanwhile begins here, not with the next run.
  if (attached_ && thread.taps_version != taps_->version())
    StartTaps(thread, frame, Know(frame.plan()));
}

void Session::Wait(Lock& lock, ThreadState& thread, FrameEditor& frame) {
  const Clock::time_point since = Clock::now();
  // What cannot be counted in microseconds is as good as for ever.
  const Clock::time_point latest =
      options_.max_pause_seconds > 0 && options_.max_pause_seconds < 1e9
          ? since +
                std::chrono::microseconds(static_cast<int64_t>(options_.max_pause_seconds * 1e6))
          : Clock::time_point::max();
  Clock::time_point poll = since + std::chrono::milliseconds(100);
  uint32_t signals = thread.signals;
  ReadAhead ahead;
  const auto leave = [&](const std::string& by_itself) {
    thread.stopped = false;
    thread.plan = nullptr;
    thread.hurried = Clock::now() < since + kHurry;
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
        thread.answering = epoch == epoch_ ? command.id() : 0;
        thread.cancelled = false;
        lock.unlock();
        proto::Reply reply = AnswerStopped(command, {frame, thread.cancelled}, ahead);
        lock.lock();
        thread.answering = 0;
        if (epoch == epoch_ && connected_) Answer(std::move(reply));
        continue;
      }
      if (thread.released) return leave("");
      if (Clock::now() >= latest) {
        return leave(
            Cat("went on after the longest pause allowed, ", options_.max_pause_seconds, " s"));
      }
      if (thread.hurried && Clock::now() < since + kHurry) {
        lock.unlock();
        StayAwake(thread.signals, signals, since + kHurry);
        lock.lock();
        signals = thread.signals;
        continue;
      }
      thread.wake.wait_until(lock, std::min(poll, latest));
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
