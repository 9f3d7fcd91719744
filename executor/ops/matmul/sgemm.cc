// The float32 matrix product on oneDNN, split into pieces for threads by its sizes.
#include "ops/matmul/sgemm.h"

#include <dnnl.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ops/lib/parallel_ranges.h"
#include "ops/lib/scratch.h"
#include "ops/lib/signal_guard.h"

namespace opstep {
namespace {

// Rows of a matrix as it is stored, and their distance.
struct Matrix {
  const float* data;
  int64_t rows, cols, step;
};

// Rows that lie a multiple of 2 KiB apart fall into the same few cache lines: oneDNN is then up to
// twice as slow, unless the product is so large that it copies by itself. A copy with a longer step
// is cheap in comparison.
Matrix Spread(const float* data, int64_t rows, int64_t cols, double work, Scratch& scratch) {
  constexpr int64_t kBad = 2048 / sizeof(float);
  constexpr int64_t kMore = 16;
  constexpr double kCopiesItself = 1e9;  // flops of a piece
  if (cols % kBad != 0 || work >= kCopiesItself || work / (rows * cols) < 128) {
    return {data, rows, cols, cols};
  }
  const int64_t step = cols + kMore;
  float* to = scratch.Take<float>(rows * step);
  ParallelRanges(rows, cols, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(to + i * step, data + i * cols, cols * sizeof(float));
    }
  });
  return {to, rows, cols, step};
}

// Equal parts of a size, cut at multiples of 16.
struct Parts {
  int64_t size, count, step;

  Parts(int64_t size, int64_t wanted) : size(size) {
    step = (size / wanted + 15) / 16 * 16;
    count = (size + step - 1) / step;
  }
  int64_t begin(int64_t i) const { return i * step; }
  int64_t length(int64_t i) const { return std::min(step, size - i * step); }
};

}  // namespace

void Sgemm::Run(const float* a, const float* b, float* c) const {
  constexpr double kPieceFlops = 2e7;
  constexpr int64_t kMostPieces = 4;
  if (m == 0 || n == 0) return;
  const double flops = 2.0 * m * n * k;
  const int64_t pieces =
      std::clamp<int64_t>(static_cast<int64_t>(flops / kPieceFlops), 1, kMostPieces);
  const Parts rows(m, m >= n ? pieces : 1);
  const Parts cols(n, m >= n ? 1 : pieces);
  const double work = flops / pieces;
  Scratch scratch;
  // Rows stored along k are read in order anyway.
  const Matrix x = trans_a ? Spread(a, k, m, work, scratch) : Matrix{a, m, k, k};
  const Matrix y = trans_b ? Matrix{b, n, k, k} : Spread(b, k, n, work, scratch);
  ParallelFor(rows.count * cols.count, [&](int64_t piece) {
    const int64_t i = piece / cols.count;
    const int64_t j = piece % cols.count;
    const float* from_x = x.data + rows.begin(i) * (trans_a ? 1 : x.step);
    const float* from_y = y.data + cols.begin(j) * (trans_b ? y.step : 1);
    const OneThread one_thread;
    const SignalGuard signal_guard;
    const dnnl_status_t status = dnnl_sgemm(
        trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', rows.length(i), cols.length(j), k, alpha, from_x,
        x.step, from_y, y.step, beta, c + rows.begin(i) * n + cols.begin(j), n);
    OPSTEP_CHECK(status == dnnl_success, "oneDNN gave up on a product of ", m, "x", k, " and ", k,
                 "x", n, " (status ", status, ")");
  });
}

}  // namespace opstep
