// The gradient ops of a tape as a plan.
#pragma once

#include <memory>
#include <vector>

#include "runtime/tracer.h"

namespace opstep {

// A value of a tape: an input or output of one of its ops.
struct Place {
  uint32_t node = 0;
  bool output = false;
  uint32_t index = 0;
};

using Tape = std::vector<std::shared_ptr<TapeNode>>;

// One gradient op, to be recorded itself. Variables have numbers: feeds come first, then outputs of
// the ops.
struct Step {
  std::shared_ptr<const TracedOp> op;
  std::vector<int> inputs, outputs;  // -1: there is none
};

// The gradient ops of a tape: as one plan, or one by one.
struct BackwardPlan {
  std::unique_ptr<CompiledPlan> plan;
  std::vector<Step> steps;
  int variables = 0;
  struct Fed {
    Place place;
    bool shape_only;
  };
  std::vector<Fed> fed;
  std::vector<Place> leaves;   // of which the plan gives the gradients, in this order
  std::vector<int> gradients;  // their numbers among the variables of the steps
};

// The request to a tape: everything that its plan depends on besides its wiring.
struct TapeRequest {
  const RuntimeValue& loss;
  const std::vector<ValuePtr>& wanted;
  const AskedAt& at;
  bool record = false;
};

const Buffer& BufferAt(const Tape& tape, const Place& place);

// The tape's gradient ops, made once for tapes of the same ops, wired in the same way, whose
// gradients are asked for on the same lines.
std::shared_ptr<const BackwardPlan> PlanFor(const Tape& tape, const TapeRequest& request);

}  // namespace opstep
