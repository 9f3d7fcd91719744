// Session as the Hook: its work on the user's threads before and after an op, up to a stop.
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "debug/inspect/stack_frames.h"
#include "debug/policy.h"
#include "debug/session/session.h"
#include "runtime/traced_program.h"

namespace opstep {
namespace {

using Clock = std::chrono::steady_clock;

// The thread's state in its latest session; the destructor reports that the thread ended.
struct ThreadSlot {
  uint64_t session_id = 0;
  std::weak_ptr<Session> session;
  std::shared_ptr<ThreadState> state;
  ~ThreadSlot() {
    if (const auto last = session.lock()) last->ThreadEnded(*state);
  }
};
thread_local ThreadSlot this_thread;

// No error of the debugger may end the run: only Ctrl-C may.
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

std::atomic<RunCallsReader> run_calls{nullptr};

// An op of imperative mode runs each time in other calls than at its first run.
std::shared_ptr<const MadeBy> MadeNow(const BoundPlan& bound, const OpFacts& facts) {
  const RunCallsReader read = bound.traced ? run_calls.load() : nullptr;
  if (read && read().size() == facts.made->size()) return std::make_shared<const MadeBy>(read());
  return facts.made;
}

Position PositionOf(const ThreadState& thread, const BoundPlan& bound, const Activation& where) {
  const OpFacts& facts = bound.At(where);
  Position at;
  at.run = thread.run;
  at.depth = bound.depth[where.block];
  at.block = where.block;
  at.iteration = where.iteration;
  at.quiet = facts.quiet;
  at.call = bound.traced ? where.instruction->op_id : 0;
  at.made = MadeNow(bound, facts);
  at.shown = at.made->size();
  at.base = bound.traced ? 0 : bound.base[where.block];
  at.goes_on = facts.goes_on;
  return at;
}

// One number for each visit to a line: all iterations around it count.
uint64_t VisitKey(const ThreadState& thread, const Activation* where, uint32_t frames) {
  const uint64_t visit = frames <= thread.at.made->size() ? (*thread.at.made)[frames - 1].visit : 0;
  uint64_t key = 1469598103934665603u;
  const auto mix = [&key](uint64_t value) { key = (key ^ value) * 1099511628211u; };
  mix(visit);
  if (thread.at.call) return key;
  mix(thread.run);
  for (; where; where = where->parent) {
    mix(static_cast<uint64_t>(where->block));
    mix(where->iteration);
  }
  return key;
}

// Python's names at an op of imperative mode, with their values. Takes Python's lock.
PythonNames NamesNow(const FrameView& frame) {
  return PythonNames::RunningAt(frame.plan(), *frame.top().instruction->op, 0,
                                PythonNames::Of::kVariablesAndValues);
}

}  // namespace

void SetRunCalls(RunCallsReader read) { run_calls.store(read); }

struct Session::Request {
  std::optional<proto::StopReason> reason;
  std::string message;
  std::vector<uint32_t> breakpoints;
  std::optional<proto::Fault> fault;
  // The number of shown calls among those that made the op; see Position.
  std::optional<size_t> shown;
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
  if (!tap_runs_.retired()) tap_runs_.End(thread.taps);
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
  if (abandoned_ || tap_runs_.retired()) return;
  Guarded([&] {
    ThreadState& thread = ThisThread();
    // A body of a loop is entered often: with taps alone there is nothing to update.
    const bool starts = !frame.top().parent;
    if (!starts && !attached_ && settled_ && !tap_runs_.HaveChanged(thread.taps)) return;
    if (starts) {
      ++thread.run;
      thread.unwinding = false;
      thread.faults.StartRun(frame.plan().id);
      thread.contents.clear();
      if (!IsTraced(frame.plan())) thread.fired.clear();
    }
    if (!settled_) WaitForWelcome();
    Lock lock(mutex_);
    if (!attached_ && !taps_->any()) return;
    std::shared_ptr<PythonNames> python;
    if (IsTraced(frame.plan()) && !plans_.Find(frame.plan().id)) {
      // Conditions may use Python's names: they are bound here, or later by a thread without
      // Python.
      lock.unlock();
      const proto::OpDesc& op = frame.plan().desc.blocks(0).ops(0);
      python = std::make_shared<PythonNames>(
          PythonNames::RunningAt(frame.plan(), op, 0, PythonNames::Of::kVariables));
      python->Read();
      lock.lock();
      if (!attached_ && !taps_->any()) return;
    }
    BoundPlan& bound = FindOrBind(frame.plan(), std::move(python));
    if (std::exchange(bound.stale, false)) Bind(frame.plan(), bound);
    if (starts || tap_runs_.HaveChanged(thread.taps)) tap_runs_.Start(thread.taps, frame, bound);
    if (!attached_) return;
    Announce(thread);
    thread.at.run = thread.run;
    if (stop_next_ || thread.pause || thread.stepper.EveryOp(thread.run)) Arm(frame.plan(), bound);
  });
}

// Which of the breakpoints stop the thread here; log points write their lines.
void Session::Visit(const std::vector<Binding>& bindings, ThreadState& thread,
                    const FrameView& frame, Request* request) {
  for (const Binding& binding : bindings) {
    if (binding.joins && !request->reason) continue;
    uint64_t key = 0;
    if (binding.once_in_visit) {
      key = VisitKey(thread, &frame.top(), binding.frames);
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
    if (binding.once_in_visit) thread.fired[binding.breakpoint] = key;
    if (binding.hits && !binding.hits->Visit()) continue;
    if (binding.log) {
      Log(binding, thread, frame);
      continue;
    }
    request->breakpoints.push_back(binding.breakpoint);
    // On its line, also where the line only calls the function that made the op.
    if (binding.frames)
      request->shown = std::max<size_t>(request->shown.value_or(0), binding.frames);
    else
      request->shown = thread.at.made->size();
    if (binding.written && request->message.empty()) {
      request->message = TellWrite(frame, binding.written, before, now);
    }
  }
}

// A condition that fails holds, unless the breakpoint only logs: otherwise nobody would learn that
// it never stops.
bool Session::Holds(const Binding& binding, const FrameView& frame, Request* request) {
  std::shared_ptr<const Expression> condition = binding.condition;
  try {
    if (binding.late) {
      // Without it the condition has no value here, as at an op without such a name.
      condition = nullptr;
      const Instruction& at = *frame.top().instruction;
      const PythonNames names = NamesNow(frame);
      condition = Expression::Bind(binding.late->condition(), frame.plan(), frame.top().block,
                                   at.op, &names);
    }
    return condition->Test({frame, frame.top()});
  } catch (const Error& error) {
    Lock lock(mutex_);
    breakpoints_.ConditionFailed(binding.breakpoint, error.what());
    SendChanges();
    if (binding.log || !condition) return false;
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
  if (binding.late) {
    const PythonNames names = NamesNow(frame);
    LogLine::Bind(binding.late->log(), frame.plan(), frame.top().block, frame.top().instruction->op,
                  &names)
        ->Write(frame, &record);
  } else {
    binding.log->Write(frame, &record);
  }
  logs_.Add(std::move(record));
}

void Session::LeaveBlock(const FrameView& frame) {
  if (frame.top().parent || abandoned_ || tap_runs_.retired()) return;
  // Where nothing may wait, a program's own output may come before the log lines.
  if (policy_ != proto::POLICY_LOG_ONLY) logs_.Settle();
  tap_runs_.EndRun(ThisThread().taps, frame);
}

void Session::TapOp(const FrameView& frame) {
  if (!taps_->any() || tap_runs_.retired()) return;
  Guarded([&] { tap_runs_.AtOp(ThisThread().id, frame); });
}

void Session::BeforeOp(FrameEditor& frame) {
  TapOp(frame);
  if (!Debugs(frame)) return;
  Guarded([&] {
    ThreadState& thread = ThisThread();
    Request request;
    std::shared_ptr<const OpWork> work;
    bool rewrites = false;
    {
      Lock lock(mutex_);
      if (!attached_) return;
      const BoundPlan& bound = FindOrBind(frame.plan());
      const OpFacts& facts = bound.At(frame.top());
      thread.at = PositionOf(thread, bound, frame.top());
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
        request.shown = thread.stepper.ShownAt(thread.at);
      }
    }
    if (work) Visit(work->before, thread, frame, &request);
    if (request.reason || !request.breakpoints.empty()) {
      Stop(thread, frame, std::move(request));
      // During the stop, something may have been set that looks at this op.
      Lock lock(mutex_);
      if (!attached_) return;
      work = FindOrBind(frame.plan()).At(frame.top()).work;
    }
    if (!work) return;
    // After the stop: the user may have edited the values that the op will overwrite.
    if (rewrites) thread.faults.BeforeOp(frame, work);
    for (uint32_t slot : work->written) {
      thread.contents[{frame.top().instruction, slot}] = LookAt(frame, slot);
    }
  });
}

void Session::AfterOp(FrameEditor& frame) {
  TapOp(frame);
  if (!Debugs(frame)) return;
  Guarded([&] {
    ThreadState& thread = ThisThread();
    Request request;
    std::shared_ptr<const OpWork> work;
    {
      Lock lock(mutex_);
      if (!attached_) return;
      const BoundPlan& bound = FindOrBind(frame.plan());
      thread.at = PositionOf(thread, bound, frame.top());
      work = bound.At(frame.top()).work;
      if (thread.stepper.EndsAfter(thread.at)) {
        request.reason = proto::STOP_STEP;
        request.shown = thread.stepper.ShownAt(thread.at);
      } else if (bound.IsLast(frame.top()) && thread.stepper.EndsAfterLast(thread.run)) {
        request.reason = proto::STOP_STEP;
      }
    }
    if (work) {
      if (auto found = thread.faults.AfterOp(frame, work)) {
        request.reason = found->reason;
        request.message = std::move(found->message);
        request.fault = std::move(found->fault);
        request.shown.reset();
      }
      Visit(work->after, thread, frame, &request);
    }
    if (request.reason || !request.breakpoints.empty()) Stop(thread, frame, std::move(request));
  });
}

void Session::OnError(FrameEditor& frame, const Error& error) {
  LeaveBlock(frame);
  if (!Debugs(frame)) return;
  Guarded([&] {
    ThreadState& thread = ThisThread();
    if (std::exchange(thread.unwinding, true)) return;
    std::shared_ptr<const OpWork> work;
    {
      Lock lock(mutex_);
      if (!attached_) return;
      const BoundPlan& bound = FindOrBind(frame.plan());
      thread.at = PositionOf(thread, bound, frame.top());
      work = bound.At(frame.top()).work;
    }
    std::string failure;
    if (!work || !WantsError(frame, work->errors, &failure)) return;
    Stop(thread, frame, {proto::STOP_ERROR, error.what() + failure, {}, {}, {}});
  });
}

void Session::Stop(ThreadState& thread, FrameEditor& frame, Request request) {
  if (!MayStop(policy_)) return;
  const size_t made = thread.at.made->size();
  thread.at.shown = std::min(request.shown.value_or(made), made);
  proto::Stopped stopped;
  FillFrames(frame, thread.at, &stopped);
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
  if (plans_.traced() > 0) TellTraced();
  thread.stepper.Cancel();
  thread.faults.Stopped();
  while (true) {
    StopAt(lock, thread, frame, stopped, request);
    if (!std::exchange(thread.entering, false) || !attached_) break;
    // A step into a call of the line: nothing has run, but it is a new stop.
    ++thread.at.shown;
    request = {proto::STOP_STEP, "", {}, {}, {}};
    stopped = {};
    lock.unlock();
    FillFrames(frame, thread.at, &stopped);
    lock.lock();
    if (!attached_) return;
  }
  // Taps set meanwhile begin here, not with the next run.
  if (attached_ && tap_runs_.HaveChanged(thread.taps))
    tap_runs_.Start(thread.taps, frame, FindOrBind(frame.plan()));
}

// Reports the stop and waits until something lets the thread go.
void Session::StopAt(Lock& lock, ThreadState& thread, FrameEditor& frame, proto::Stopped stopped,
                     const Request& request) {
  stopped.set_thread(thread.id);
  stopped.set_stop(++last_stop_);
  stopped.set_reason(*request.reason);
  stopped.set_message(request.message);
  if (request.fault) *stopped.mutable_fault() = *request.fault;
  thread.stop = stopped;
  thread.stopped = true;
  thread.released = false;
  thread.plan = &frame.plan();
  logs_.Flush();  // log lines written before the stop arrive before it
  proto::FromExecutor message;
  *message.mutable_stopped() = std::move(stopped);
  channel_->Put(std::move(message));
  lock.unlock();
  channel_->Write();
  lock.lock();
  Wait(lock, thread, frame);
}

}  // namespace opstep
