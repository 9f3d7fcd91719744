// Hook, FrameView and FrameEditor: the only way into a run.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "plan/plan.h"

namespace opstep {

// One level of the stack of blocks that a run is in.
struct Activation {
  const Activation* parent = nullptr;  // the block around it
  int block = 0;
  uint64_t iteration = 0;
  // The instruction that runs now (for an outer level: the one that runs the inner block).
  const Instruction* instruction = nullptr;
};

// Is there a value in a slot, at the place where the run stands?
enum class ValueState { kPresent, kNotWritten, kReleased };

// A running plan, to look at. Valid only inside a hook call, on the thread that runs.
class FrameView {
 public:
  virtual ~FrameView() = default;
  virtual const Plan& plan() const = 0;
  virtual PlanShape shape() const = 0;
  // Number of this run of the program, from 1.
  virtual uint64_t step() const = 0;
  // Innermost first.
  virtual const Activation& top() const = 0;
  // The op of `top` has run.
  virtual bool after() const = 0;
  // For kReleased, `*released_by` is the instruction after which it went.
  virtual ValueState StateOf(uint32_t slot, const Instruction** released_by = nullptr) const = 0;
  virtual const Tensor& tensor(uint32_t slot) const = 0;
};

// A run that stands still, to change. Who only looks gets a FrameView.
class FrameEditor : public FrameView {
 public:
  // Lets `write` change the slot's value, which must be present. Only this run sees the change, or,
  // for a persistable variable, everybody who has the scope: what the caller fed and what other
  // runs of the plan share is copied first. Constants that are still to come and depend on it are
  // computed anew.
  virtual void Edit(uint32_t slot, const std::function<void(Tensor&)>& write) = 0;
};

// The one way into a run. Calls come from the thread that runs and may block it. BeforeOp and
// AfterOp are called only for instructions whose watch byte asks for it. A hook may throw nothing
// but Error and Interrupted, which end the run.
class Hook {
 public:
  virtual ~Hook() = default;
  // Does it want every value kept? Else blocks run in their fast shape, and it sees the values that
  // an op reads and makes at that op only. Asked at each start of a block.
  virtual bool Inspects() const { return true; }
  // Also the place to look at a plan for the first time and set its watch bytes.
  virtual void EnterBlock(const FrameView&) {}
  virtual void BeforeOp(FrameEditor&) {}
  virtual void AfterOp(FrameEditor&) {}
  // The op of `top` failed; the error unwinds when the call returns.
  virtual void OnError(FrameEditor&, const Error&) {}
  virtual void LeaveBlock(const FrameView&) {}
};

// The process's hook: every run looks for it at its start and at each start of a block. Null takes
// it away; a run that is inside it keeps it alive.
void SetHook(std::shared_ptr<Hook> hook);
std::shared_ptr<Hook> CurrentHook();

// Called on the running thread now and then (about every 0.1 s of a run, and by a hook that waits);
// throws to end the run. The bindings set it to look for Ctrl-C.
void SetInterruptPoll(void (*poll)());
void PollInterrupt();

// An error of an op, with its type before and its place after: "[log] … (train.py:41, op #12
// log_0)".
class OpError : public Error {
 public:
  using Error::Error;
};

// What PollInterrupt throws: the language above has its own error pending.
struct Interrupted {};

}  // namespace opstep
