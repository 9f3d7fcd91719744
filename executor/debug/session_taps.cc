// The part of the session that taps need: what commands do with them, and what runs do for them.
#include "debug/session.h"

namespace opstep {

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

// ---- on the user's threads ----------------------------------------------------------------------

// The watch bytes of a plan that taps look at are set only in runs that one of them is due in.
void Session::StartTaps(ThreadState& thread, const FrameView& frame, KnownPlan& known) {
  thread.taps_version = taps_->version();
  if (taps_->Police(TapClock::now())) {
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

// A run is over. Its watch bytes stay set only if the next one is looked at too: other threads that
// run the plan pay for them.
void Session::LeaveBlock(const FrameView& frame) {
  if (frame.top().parent || abandoned_ || retired_) return;
  // Where nothing may wait, a program's own output may come before its lines.
  if (policy_ != proto::POLICY_LOG_ONLY) logs_.Settle();
  ThreadState& thread = ThisThread();
  Lock lock(mutex_);
  if (thread.tapped == 0) return;
  const KnownPlan* known = plans_.Find(thread.tapped);
  if (known == nullptr || !taps_->Due(*known, frame.step() + 1)) EndTaps(thread);
}

void Session::RunTaps(const FrameView& frame) {
  if (!taps_->any() || retired_) return;
  const ThreadState& thread = ThisThread();
  std::shared_ptr<const OpWork> work;
  {
    Lock lock(mutex_);
    if (const KnownPlan* known = plans_.Find(frame.plan().id)) work = known->At(frame.top()).work;
  }
  if (work) taps_->Visit(frame.after() ? work->taps_after : work->taps_before, frame, thread.id);
  if (!taps_->IsPatrolDue()) return;
  Lock lock(mutex_);
  if (!retired_ && taps_->Police(TapClock::now())) {
    BindAll();
    SendChanges();
  }
}

}  // namespace opstep
