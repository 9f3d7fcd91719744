// Splits elementwise kernels over threads.
#pragma once

#include "ops/kernel.h"

namespace opstep {

// For elementwise kernels that go through all elements in order: the same kernel, called for ranges
// on several threads when output 0 is large. Inputs of one element are the same for each range; all
// others must have as many elements as the output.
Kernel SplitFlat(const PrepareContext& ctx, Kernel kernel);

}  // namespace opstep
