// Faults (NaN, Inf, overflow, op errors) at one op: which fault it has just made.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "debug.pb.h"
#include "debug/expr/expression.h"
#include "runtime/hook.h"

namespace opstep {

// A fault filter at one instruction.
struct FaultBinding {
  proto::FaultKind kind = proto::FAULT_UNSPECIFIED;
  double limit = 0;                             // of overflow
  std::shared_ptr<const Expression> condition;  // null: always
};

// Bad values found in tensors.
struct BadNumbers {
  bool nan = false;
  bool inf = false;
  double largest = 0;  // size of an element; only when an overflow is looked for
  // Not checked: it had no fault after the previous run.
  bool assumed = false;
};

struct Finding {
  proto::StopReason reason;
  proto::Fault fault;
  std::string message;
};

// In those inputs of the op that it will overwrite; asked before it runs.
BadNumbers LookAtRewritten(const FrameView& frame, const std::vector<FaultBinding>& wanted);

// Has the op just made a wanted fault, one in an output and in no input? `before` is what
// LookAtRewritten found; `clean` is set when no output has a fault of any origin. A condition that
// cannot be evaluated holds, and the message says so.
std::optional<Finding> FindMade(const FrameView& frame, const std::vector<FaultBinding>& wanted,
                                const BadNumbers& before, bool* clean);

// Is the op's error a wanted one? `failure` reports a condition that cannot be evaluated.
bool WantsError(const FrameView& frame, const std::vector<FaultBinding>& wanted,
                std::string* failure);

}  // namespace opstep
