// Loops over the output of a reduction and, for each element, over the inputs reduced to it.
#pragma once

#include <algorithm>

#include "ops/reduce/reduce.h"

namespace opstep {

// For gradients that must see all elements that were reduced to one: loops over the output, and for
// each of its elements over those.
struct ReducedElements {
  LoopNest<1> outer;  // operand: X, over the shape of out
  LoopNest<1> inner;  // operand: X, over the reduced axes
};

// A nest over the axes of X that are in `axes`, or over the others.
inline LoopNest<1> NestOver(const Dims& x, const AxisSet& axes, bool in_axes) {
  LoopNest<1> nest;
  int used = 0;
  int64_t stride = 1;
  for (int d = x.rank() - 1; d >= 0; --d) {
    if (axes[d] == in_axes) {
      nest.size[used] = x[d];
      nest.stride[used++][0] = stride;
      nest.empty |= x[d] == 0;
    }
    stride *= x[d];
  }
  if (used == 0) nest.size[used++] = 1;
  nest.rank = used;
  std::reverse(nest.size.begin(), nest.size.begin() + used);
  std::reverse(nest.stride.begin(), nest.stride.begin() + used);
  return nest;
}

inline ReducedElements MakeReducedElements(const OpView& op, const Dims& x) {
  const AxisSet axes = ReducedAxes(op, x);
  return {NestOver(x, axes, false), NestOver(x, axes, true)};
}

// Calls f(offset in X) for each element of a nest.
template <typename F>
OPSTEP_INLINE void ForEachElement(const LoopNest<1>& nest, F&& f) {
  const int64_t step = nest.stride[nest.rank - 1][0];
  ForEachRun(nest, [&](const std::array<int64_t, 1>& at) OPSTEP_INLINE_LAMBDA {
    for (int64_t i = 0; i < nest.inner_size(); ++i) f(at[0] + i * step);
  });
}

}  // namespace opstep
