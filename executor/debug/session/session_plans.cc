// Session and plans: binding, watch bytes, and reports about programs to the server.
#include "debug/plans/program_messages.h"
#include "debug/session/session.h"
#include "runtime/traced_program.h"

namespace opstep {

BoundPlan& Session::FindOrBind(const Plan& plan, std::shared_ptr<const PythonNames> python) {
  if (BoundPlan* bound = plans_.Find(plan.id)) return *bound;
  BoundPlan& bound = plans_.Add(plan);
  bound.python = std::move(python);
  Bind(plan, bound);
  TellProgram(plan);
  SendChanges();
  return bound;
}

void Session::TellProgram(const Plan& plan) {
  // It grows op by op: after the first op it is reported when somebody looks.
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
  plans_.ForEach([&](const Plan& plan, BoundPlan&) { TellProgram(plan); });
}

void Session::Bind(const Plan& plan, BoundPlan& bound) {
  bound.ClearWork();
  if (attached_) {
    breakpoints_.Bind(plan, bound);
    faults_.Bind(plan, bound);
  }
  taps_->Bind(plan, bound);
  plans_.Watch(plan, bound);
}

// A model that runs in many shapes has many plans, and runs wait meanwhile: taps find the older
// ones at their next run.
void Session::BindAll() {
  plans_.ForEach([&](const Plan& plan, BoundPlan& bound) {
    bound.stale = !attached_ && !plans_.IsNewest(plan);
    if (!bound.stale) Bind(plan, bound);
  });
}

void Session::Arm(const Plan& plan, BoundPlan& bound) {
  if (bound.armed) return;
  bound.armed = true;
  plans_.Watch(plan, bound);
}

void Session::DisarmIfIdle() {
  bool every = stop_next_.has_value(), end = false, after = false;
  for (const auto& [id, thread] : threads_) {
    every |= thread->pause || thread->stepper.EveryOp(thread->at.run);
    end |= thread->stepper.EndsWithRun(thread->at.run);
    after |= thread->stepper.AfterEveryOp();
  }
  plans_.ForEach([&](const Plan& plan, BoundPlan& bound) {
    if (bound.armed <= every && bound.end_watched <= end && bound.after_armed <= after) return;
    bound.armed &= every;
    bound.after_armed &= after;
    bound.end_watched &= end;
    plans_.Watch(plan, bound);
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
