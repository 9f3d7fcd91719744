// Passes over a block of elements (minimum, maximum, sums), with the same bits on every machine.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace opstep {

// The instruction sets that the loops over a tensor's elements are compiled for. All give the same
// bits: additions are in fixed lanes, and nothing is contracted to fma.
enum class Instructions { kPortable, kAvx2, kAvx512 };
bool MachineHas(Instructions instructions);
// The best that the machine has.
Instructions BestInstructions();

// Elements that stay in the first-level cache between the passes over them.
inline constexpr int64_t kScanBlock = 4096;

// Of the differences d = element - center in a block; min and max are of the elements. NaN and Inf
// make `squares` NaN or Inf.
struct BlockSums {
  double min, max;
  double sum, squares;
  uint64_t zeros;
};

struct Cleaned {
  uint64_t nan = 0, inf = 0;
  double finite = 0;  // the first finite element, if there is one
};

// Blocks of 1 to kScanBlock elements.
struct Scans {
  // One pass in float: sums of at most 32 elements a lane, joined in double. That is twice as fast
  // as doubles throughout, runs at the speed of memory, and is good to about 1e-7 of `squares`;
  // small integers are exact. `center` must lie among the elements, or rounding destroys the
  // result.
  BlockSums (*floats)(const float* p, int64_t n, float center);
  BlockSums (*doubles)(const double* p, int64_t n, double center);
  // Elements of a dtype as floats or doubles. A bool is 0 or 1, whatever its byte.
  void (*to_floats)(DType dtype, const void* p, int64_t n, float* out);
  void (*to_doubles)(DType dtype, const void* p, int64_t n, double* out);
  // Replaces all elements that are not finite by the first finite one.
  Cleaned (*clean)(double* p, int64_t n);
};
const Scans& ScansFor(Instructions instructions);

}  // namespace opstep
