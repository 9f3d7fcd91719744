// What the session knows of plans and tells of them.
#include "debug/session.h"
#include "runtime/traced_program.h"

namespace opstep {

KnownPlan& Session::Know(const Plan& plan, std::shared_ptr<const PythonNames> python) {
  if (KnownPlan* known = plans_.Find(plan.id)) return *known;
  KnownPlan& known = plans_.Add(plan);
  known.python = std::move(python);
  Bind(plan, known);
  TellProgram(plan);
  SendChanges();
  return known;
}

void Session::TellProgram(const Plan& plan) {
  // It grows op by op: after the first one it is told of when somebody looks.
  if (IsTraced(plan)) {
    if (plans_.traced() <= 1 || !told_programs_.contains(plan.program_id)) TellTraced();
    return;
  }
  const auto told = told_programs_.find(plan.program_id);
  if (told != told_programs_.end() && told->second == plan.program_version) return;
  told_programs_[plan.program_id] = plan.program_version;
  proto::FromExecutor message;
  *message.mutable_program() = Describe(plan);
  channel_->Send(std::move(message));
}

// All of imperative mode is one program, which grows.
void Session::TellTraced() {
  uint32_t& told = told_programs_[TracedProgram()];
  if (std::exchange(told, plans_.traced()) == plans_.traced()) return;
  proto::FromExecutor message;
  *message.mutable_program() = Describe(plans_);
  channel_->Send(std::move(message));
}

void Session::TellPrograms() {
  plans_.ForEach([&](const Plan& plan, KnownPlan&) { TellProgram(plan); });
}

void Session::Bind(const Plan& plan, KnownPlan& known) {
  known.ClearWork();
  if (attached_) {
    breakpoints_.Bind(plan, known);
    faults_.Bind(plan, known);
  }
  taps_->Bind(plan, known);
  plans_.Watch(plan, known);
}

// A model that runs in many shapes has many plans, and runs wait meanwhile: taps find the older
// ones when they are run next.
void Session::BindAll() {
  plans_.ForEach([&](const Plan& plan, KnownPlan& known) {
    known.stale = !attached_ && !plans_.IsNewest(plan);
    if (!known.stale) Bind(plan, known);
  });
}

void Session::Arm(const Plan& plan, KnownPlan& known) {
  if (known.armed) return;
  known.armed = true;
  plans_.Watch(plan, known);
}

void Session::DisarmIfIdle() {
  bool every = stop_next_.has_value(), end = false, after = false;
  for (const auto& [id, thread] : threads_) {
    every |= thread->pause || thread->stepper.EveryOp(thread->at.run);
    end |= thread->stepper.EndsWithRun(thread->at.run);
    after |= thread->stepper.AfterEveryOp();
  }
  plans_.ForEach([&](const Plan& plan, KnownPlan& known) {
    if (known.armed <= every && known.end_watched <= end && known.after_armed <= after) return;
    known.armed &= every;
    known.after_armed &= after;
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
  if (proto::TapStatuses taps = taps_->TakeChanges(); taps.statuses_size() > 0) {
    proto::FromExecutor message;
    *message.mutable_tap_statuses() = std::move(taps);
    channel_->Send(std::move(message));
  }
}

}  // namespace opstep
