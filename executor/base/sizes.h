// The largest absolute value of a tensor, and elements beyond a limit.
#pragma once

#include <cstdint>

#include "base/tensor.h"

namespace opstep {

// The largest |element| of a tensor of floats, in one pass at memory speed. Inf counts, NaN does
// not; 0 for other dtypes and without memory.
double LargestSize(const Tensor& tensor);

// Counts elements with |element| > limit, and finds the first; -1 when there is none.
struct Beyond {
  uint64_t count = 0;
  int64_t first = -1;
};
Beyond CountBeyond(const Tensor& tensor, double limit);

}  // namespace opstep
