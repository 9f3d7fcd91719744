// Whether a frame has gone back in its code between two ops that it made. Needs the GIL.
#pragma once

#include <cstdint>
#include <vector>

#include "opstep/bindings/frames/frames.h"

namespace opstep::python {

// The values of the names assigned by the loops around a place, when an op was made there.
using LoopState = std::vector<uint64_t>;
LoopState LoopStateAt(const Code& code, PyFrameObject* frame, uint32_t place);

// The frame made an op at `from`, and makes one at `to`, which is not before it: has it jumped back
// in between? Decided by the code's control flow and, in a loop, by the current values of its
// names.
bool HasGoneBack(const Code& code, PyFrameObject* frame, uint32_t from, uint32_t to,
                 const LoopState& then);

}  // namespace opstep::python
