#pragma once

#include <optional>
#include <string>

#include "debug.pb.h"
#include "runtime/hook.h"

namespace opstep {

// Which kinds of numbers that are none there are.
struct BadNumbers {
  bool nan = false;
  bool inf = false;
};

struct Finding {
  proto::StopReason reason;
  std::string message;
};

bool Wants(const proto::SetExceptions& wanted, proto::FaultKind kind);

// In those inputs of the op that it will overwrite; asked before it runs.
BadNumbers LookAtRewritten(const FrameView& frame);

// Has the op just made a NaN or an Inf: in an output and in no input? `before` is what
// LookAtRewritten found.
std::optional<Finding> FindMade(const FrameView& frame, const proto::SetExceptions& wanted,
                                const BadNumbers& before);

}  // namespace opstep
