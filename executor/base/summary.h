// The summary of a tensor (min, max, mean, std, NaN, Inf), and its test for NaN and Inf.
#pragma once

#include <cstdint>
#include <functional>

#include "base/scan.h"
#include "base/tensor.h"

namespace opstep {

// A tensor at a glance. min, max, mean and std are over the finite elements, and NaN when there are
// none; l2, the root of the sum of their squares, is then 0. The same bits on every machine and
// with any number of threads: the order of additions is fixed.
struct Summary {
  uint64_t count = 0;
  double min = 0, max = 0, mean = 0, std = 0, l2 = 0;
  uint64_t nan = 0, inf = 0, zeros = 0;
};
// Calls f(i) for each i in [0, n), in any order, maybe on several threads. An exception of f ends
// the summary.
using EachPiece = std::function<void(int64_t n, const std::function<void(int64_t i)>& f)>;
// Large tensors are summed up in pieces, which depend on the size only and may run in parallel.
Summary Summarize(const Tensor& tensor, const EachPiece& each = {},
                  Instructions instructions = BestInstructions());

// The first bad element of a tensor; -1 when there is none.
struct NonFinite {
  uint64_t nan = 0, inf = 0;
  int64_t first_nan = -1, first_inf = -1;
};
// True for integers and for a tensor without memory.
bool AllFinite(const Tensor& tensor);
NonFinite CountNonFinite(const Tensor& tensor);

}  // namespace opstep
