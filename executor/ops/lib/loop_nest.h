// Nested loops over a tensor that operands are broadcast to.
#pragma once

#include <algorithm>
#include <array>

#include "base/tensor.h"
#include "ops/lib/simd.h"

namespace opstep {

// Loops over a tensor that N operands are broadcast to: as few dimensions as possible, the
// innermost last, where each operand has stride 1 (advances) or 0 (stays).
template <int N>
struct LoopNest {
  int rank = 1;
  std::array<int64_t, Dims::kMaxRank> size{};
  std::array<std::array<int64_t, N>, Dims::kMaxRank> stride{};
  bool empty = false;

  int64_t inner_size() const { return size[rank - 1]; }
  // A single element counts as advancing.
  bool along(int operand) const { return inner_size() == 1 || stride[rank - 1][operand] != 0; }
};

// Operands must be broadcastable to `domain`.
template <int N>
LoopNest<N> MakeLoopNest(const Dims& domain, const std::array<Dims, N>& operands) {
  LoopNest<N> nest;
  std::array<int64_t, N> dense;
  dense.fill(1);
  int used = 0;
  // From the innermost dimension outwards; reversed at the end.
  for (int d = domain.rank() - 1; d >= 0; --d) {
    nest.empty |= domain[d] == 0;
    std::array<int64_t, N> stride{};
    for (int k = 0; k < N; ++k) {
      const int own = d - (domain.rank() - operands[k].rank());
      if (own < 0 || operands[k][own] == 1) continue;
      stride[k] = dense[k];
      dense[k] *= operands[k][own];
    }
    if (domain[d] == 1) continue;
    bool joins = used > 0;
    for (int k = 0; k < N && joins; ++k) {
      joins = stride[k] == nest.stride[used - 1][k] * nest.size[used - 1];
    }
    if (joins) {
      nest.size[used - 1] *= domain[d];
    } else {
      nest.size[used] = domain[d];
      nest.stride[used++] = stride;
    }
  }
  if (used == 0) {
    nest.size[0] = 1;
    nest.stride[0].fill(1);
    used = 1;
  }
  nest.rank = used;
  std::reverse(nest.size.begin(), nest.size.begin() + used);
  std::reverse(nest.stride.begin(), nest.stride.begin() + used);
  return nest;
}

// Calls f(offsets of the operands) for each run of nest.inner_size() elements, in row-major order.
template <int N, typename F>
OPSTEP_INLINE void ForEachRun(const LoopNest<N>& nest, F&& f) {
  if (nest.empty) return;
  std::array<int64_t, Dims::kMaxRank> index{};
  std::array<int64_t, N> offset{};
  while (true) {
    f(offset);
    int d = nest.rank - 2;
    for (; d >= 0; --d) {
      for (int k = 0; k < N; ++k) offset[k] += nest.stride[d][k];
      if (++index[d] < nest.size[d]) break;
      for (int k = 0; k < N; ++k) offset[k] -= nest.stride[d][k] * nest.size[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace opstep
