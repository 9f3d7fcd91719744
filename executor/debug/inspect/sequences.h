// The sequences of a ragged variable.
#pragma once

#include "debug.pb.h"
#include "runtime/hook.h"

namespace opstep {

// Adds what the sequences of a variable are, when it is ragged and their offsets are there and fit.
void FillSequences(const FrameView& frame, uint32_t slot, proto::Tensor* out);

}  // namespace opstep
