// The matrix product of every number dtype, for the kernels of gemm and matmul.
#pragma once

#include <cstring>

#include "ops/lib/numeric.h"
#include "ops/matmul/sgemm.h"

namespace opstep {

// Row-major: c[m,n] = alpha * op(a)[m,k] @ op(b)[k,n] + beta * c. A transposed matrix is stored
// [k,m] or [n,k]. With beta 0 the old content of c is ignored.
struct Gemm {
  bool trans_a = false;
  bool trans_b = false;
  int64_t m = 0, n = 0, k = 0;
  double alpha = 1.0;
  double beta = 0.0;

  void Run(const float* a, const float* b, float* c) const {
    if (m == 0 || n == 0) return;
    if (k == 0) return Scale(c);
    const Sgemm product{
        trans_a, trans_b, m, n, k, static_cast<float>(alpha), static_cast<float>(beta)};
    product.Run(a, b, c);
  }

  // float64 and integers, which wrap.
  template <typename T>
  void Run(const T* a, const T* b, T* c) const {
    Scale(c);
    const T scale = static_cast<T>(alpha);
    for (int64_t i = 0; i < m; ++i) {
      const auto left = [&](int64_t l) { return trans_a ? a[l * m + i] : a[i * k + l]; };
      T* row = c + i * n;
      if (trans_b) {
        for (int64_t j = 0; j < n; ++j) {
          const T sum = SumRun<T>(k, [&](int64_t l) { return Times(left(l), b[j * k + l]); });
          row[j] = Plus(row[j], Times(scale, sum));
        }
      } else {
        for (int64_t l = 0; l < k; ++l) {
          const T factor = Times(scale, left(l));
          const T* from = b + l * n;
#pragma GCC ivdep
          for (int64_t j = 0; j < n; ++j) row[j] = Plus(row[j], Times(factor, from[j]));
        }
      }
    }
  }

 private:
  template <typename T>
  void Scale(T* c) const {
    if (beta == 0.0) {
      std::fill_n(c, m * n, T(0));
    } else if (beta != 1.0) {
      for (int64_t i = 0; i < m * n; ++i) c[i] = Times(c[i], static_cast<T>(beta));
    }
  }
};

}  // namespace opstep
