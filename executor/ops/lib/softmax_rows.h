// Softmax of one row of elements, shared by the softmax ops and losses.
#pragma once

#include <limits>

#include "ops/lib/numeric.h"

namespace opstep {

struct MaxCombine {
  template <typename T>
  OPSTEP_INLINE static T Do(T a, T b) {
    return MaxOf(a, b);
  }
};

template <typename T>
struct SoftmaxSums {
  T largest;
  T sum;  // of exp(x - largest)
};

// Softmax of n elements that lie `step` apart; in place is fine.
template <typename T>
OPSTEP_INLINE SoftmaxSums<T> SoftmaxRow(const T* x, T* out, int64_t n, int64_t step) {
  const T largest =
      FoldRun<T, MaxCombine>(-std::numeric_limits<T>::infinity(), n,
                             [&](int64_t i) OPSTEP_INLINE_LAMBDA { return x[i * step]; });
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i * step] = Exp(x[i * step] - largest);
  const T sum = SumRun<T>(n, [&](int64_t i) OPSTEP_INLINE_LAMBDA { return out[i * step]; });
  const T scale = T(1) / sum;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i * step] *= scale;
  return {largest, sum};
}

}  // namespace opstep
