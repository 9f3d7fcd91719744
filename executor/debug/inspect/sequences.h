// The sequences of a ragged variable.
#pragma once

#include "debug.pb.h"
#include "runtime/hook.h"

namespace opstep {

// Adds the sequences of a variable when it is ragged and its offsets are present and fit.
void FillSequences(const FrameView& frame, uint32_t slot, proto::Tensor* out);

}  // namespace opstep
