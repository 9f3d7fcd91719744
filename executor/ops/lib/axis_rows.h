// The rows of a tensor along one axis, and a loop over them.
#pragma once

#include "ops/lib/shape_rules.h"
#include "ops/lib/simd.h"

namespace opstep {

// The rows of a tensor along one axis: each has `size` elements that lie `inner` apart.
struct AxisRows {
  int64_t outer = 1, size = 1, inner = 1;
};

inline AxisRows MakeAxisRows(const Dims& dims, int64_t axis, std::string_view name) {
  const int a = NormalizeAxis(axis, dims, name);
  AxisRows rows;
  for (int i = 0; i < a; ++i) rows.outer *= dims[i];
  rows.size = dims[a];
  for (int i = a + 1; i < dims.rank(); ++i) rows.inner *= dims[i];
  return rows;
}

// Calls f(offset of the first element, distance between elements) for each row that has elements,
// in row-major order. The distance is a constant 1 where rows are contiguous.
template <typename F>
OPSTEP_INLINE void ForEachRow(const AxisRows& rows, F&& f) {
  if (rows.size == 0) return;
  if (rows.inner == 1) {
    for (int64_t o = 0; o < rows.outer; ++o) f(o * rows.size, 1);
  } else {
    for (int64_t o = 0; o < rows.outer; ++o) {
      for (int64_t i = 0; i < rows.inner; ++i) f(o * rows.size * rows.inner + i, rows.inner);
    }
  }
}

}  // namespace opstep
