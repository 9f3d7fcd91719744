// The float32 matrix product.
#pragma once

#include <cstdint>

namespace opstep {

// Row-major in float32: c[m,n] = alpha * op(a)[m,k] @ op(b)[k,n] + beta * c. A transposed matrix is
// stored [k,m] or [n,k]. Large products are split for threads by their sizes alone.
struct Sgemm {
  bool trans_a = false, trans_b = false;
  int64_t m = 0, n = 0, k = 0;
  float alpha = 1, beta = 0;

  void Run(const float* a, const float* b, float* c) const;
};

}  // namespace opstep
