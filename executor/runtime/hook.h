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

// Does a slot have a value at the run's current place?
enum class ValueState { kPresent, kNotWritten, kReleased };

// Read access to a running plan. Valid only inside a hook call, on the thread that runs.
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
  // For kReleased, `*released_by` is the instruction after which it was released.
  virtual ValueState StateOf(uint32_t slot, const Instruction** released_by = nullptr) const = 0;
  virtual const Tensor& tensor(uint32_t slot) const = 0;
};

// Write access to a stopped run. Readers get a FrameView.
class FrameEditor : public FrameView {
 public:
  // Lets `write` change the slot's value, which must be present. Only this run sees the change, or,
  // for a persistable variable, all users of the scope: feeds of the caller and values shared with
  // other runs of the plan are copied first. Later constants that depend on it are computed again.
  virtual void Edit(uint32_t slot, const std::function<void(Tensor&)>& write) = 0;
};

// The one way into a run. Calls come from the thread that runs and may block it. BeforeOp and
// AfterOp are called only for instructions whose watch byte asks for it. A hook may throw only
// Error and Interrupted, which end the run.
class Hook {
 public:
  virtual ~Hook() = default;
  // Should every value be kept? If not, blocks run in their fast shape, and the hook sees an op's
  // inputs and outputs only at that op. Asked at each start of a block.
  virtual bool Inspects() const { return true; }
  // Also the place to see a plan for the first time and set its watch bytes.
  virtual void EnterBlock(const FrameView&) {}
  virtual void BeforeOp(FrameEditor&) {}
  virtual void AfterOp(FrameEditor&) {}
  // The op of `top` failed; the error unwinds when the call returns.
  virtual void OnError(FrameEditor&, const Error&) {}
  virtual void LeaveBlock(const FrameView&) {}
};

// The process's hook: every run looks it up at its start and at each start of a block. Null removes
// it; a run that is inside it keeps it alive.
void SetHook(std::shared_ptr<Hook> hook);
std::shared_ptr<Hook> CurrentHook();

// Called on the running thread now and then (about every 0.1 s of a run, and by a hook that waits);
// throws to end the run. The bindings set it to check for Ctrl-C.
void SetInterruptPoll(void (*poll)());
void PollInterrupt();

// An error of an op, with its type before and its place after: "[log] … (train.py:41, op #12
// log_0)".
class OpError : public Error {
 public:
  using Error::Error;
};

// Thrown by PollInterrupt: the calling language has its own error pending.
struct Interrupted {};

}  // namespace opstep
