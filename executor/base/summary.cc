// The summary of a tensor in one pass, and its test for NaN and Inf.
#include "base/summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/half.h"
#include "base/wide.h"

namespace opstep {
namespace {

// Adding one to an exponent of all ones carries into the sign bit, which was cleared: works on
// whole vectors without a comparison.
template <typename Bits>
[[gnu::always_inline]] inline bool AllFiniteBits(const Bits* bits, int64_t n, Bits exponent_one) {
  constexpr Bits kMagnitude = static_cast<Bits>(std::numeric_limits<Bits>::max() >> 1);
  constexpr int64_t kStride = 4096;
  for (int64_t i = 0; i < n; i += kStride) {
    const int64_t end = std::min(n, i + kStride);
    Bits carried = 0;
    for (int64_t j = i; j < end; ++j) {
      carried |= static_cast<Bits>((bits[j] & kMagnitude) + exponent_one);
    }
    if (carried > kMagnitude) return false;
  }
  return true;
}

OPSTEP_WIDE bool AllFinite16(const uint16_t* bits, int64_t n, uint16_t exponent_one) {
  return AllFiniteBits<uint16_t>(bits, n, exponent_one);
}
OPSTEP_WIDE bool AllFinite32(const uint32_t* bits, int64_t n) {
  return AllFiniteBits<uint32_t>(bits, n, 0x00800000u);
}
OPSTEP_WIDE bool AllFinite64(const uint64_t* bits, int64_t n) {
  return AllFiniteBits<uint64_t>(bits, n, 0x0010000000000000u);
}

// One of the elements, and seldom an outlier.
template <typename T>
T CenterOf(const T* p, int64_t n) {
  const T a = p[0], b = p[n / 2], c = p[n - 1];
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

bool FitsFloat(DType dtype) { return SizeOf(dtype) <= 2 || dtype == DType::kFloat32; }

// The summary of some of the elements. Parts are joined by the parallel-variance rule: no
// cancellation for any mean.
class Total {
 public:
  // 1 to kScanBlock elements.
  void AddBlock(const Scans& scans, DType dtype, const void* p, int64_t n) {
    if (FitsFloat(dtype)) {
      float block[kScanBlock];
      const float* floats = static_cast<const float*>(p);
      if (dtype != DType::kFloat32) {
        scans.to_floats(dtype, p, n, block);
        floats = block;
      }
      const float center = CenterOf(floats, n);
      const BlockSums sums = scans.floats(floats, n, center);
      if (GoodInFloat(sums, static_cast<double>(n))) {
        return AddSums(sums, static_cast<double>(n), static_cast<double>(center));
      }
    } else if (dtype == DType::kFloat64) {
      const double* doubles = static_cast<const double*>(p);
      const double center = CenterOf(doubles, n);
      const BlockSums sums = scans.doubles(doubles, n, center);
      if (std::isfinite(sums.squares)) return AddSums(sums, static_cast<double>(n), center);
    }
    AddInDouble(scans, dtype, p, n);
  }

  // As if the elements of `next` had followed.
  void Join(const Total& next) {
    nan_ += next.nan_;
    inf_ += next.inf_;
    if (next.seen_ == 0) return;
    if (seen_ == 0) {
      min_ = next.min_;
      max_ = next.max_;
      mean_ = next.mean_;
    } else {
      min_ = std::min(min_, next.min_);
      max_ = std::max(max_, next.max_);
      const double delta = next.mean_ - mean_;
      const double share = next.seen_ / (seen_ + next.seen_);
      mean_ += delta * share;
      spread_ += delta * delta * (seen_ * share);
    }
    seen_ += next.seen_;
    sum_ += next.sum_;
    spread_ += next.spread_;
    squares_ += next.squares_;
    zeros_ += next.zeros_;
  }

  Summary Finish(uint64_t count) const {
    Summary s{.count = count, .nan = nan_, .inf = inf_, .zeros = zeros_};
    s.min = s.max = s.mean = s.std = std::nan("");
    if (seen_ == 0) return s;
    s.min = min_;
    s.max = max_;
    // By the sum small integers are exact; the joined mean is for equal elements, and cannot
    // overflow.
    s.mean = min_ == max_ || !std::isfinite(sum_) ? mean_ : sum_ / seen_;
    s.std = std::sqrt(spread_ / seen_);
    s.l2 = std::sqrt(squares_);
    return s;
  }

 private:
  // The sums in float suffice: all elements are finite, no square was too large or too small for a
  // float, and the center is within two deviations of the mean, so that little cancels. That is
  // usual, as the center is one of the elements.
  static bool GoodInFloat(const BlockSums& s, double n) {
    if (s.min == s.max && s.squares == 0) return true;
    return std::isfinite(s.squares) && s.squares > 0x1p-100 * n &&
           s.squares <= 5 * (s.squares - s.sum * (s.sum / n));
  }

  void AddInDouble(const Scans& scans, DType dtype, const void* p, int64_t n) {
    double block[kScanBlock];
    scans.to_doubles(dtype, p, n, block);
    const Cleaned cleaned = IsFloat(dtype) ? scans.clean(block, n) : Cleaned{.finite = block[0]};
    nan_ += cleaned.nan;
    inf_ += cleaned.inf;
    // The replaced elements equal the center and must not count elsewhere.
    const uint64_t replaced = cleaned.nan + cleaned.inf;
    const uint64_t kept = static_cast<uint64_t>(n) - replaced;
    if (kept == 0) return;
    BlockSums sums = scans.doubles(block, n, cleaned.finite);
    if (cleaned.finite == 0) sums.zeros -= replaced;
    AddSums(sums, static_cast<double>(kept), cleaned.finite);
  }

  // The center is one of the n elements, so the cancelled part is at most n + 1 times the rest.
  void AddSums(const BlockSums& s, double n, double center) {
    Total block;
    const double spread = s.squares - s.sum * (s.sum / n);
    block.seen_ = n;
    block.mean_ = center + s.sum / n;
    block.sum_ = n * center + s.sum;
    block.spread_ = spread < 0 ? 0 : spread;
    block.squares_ = s.squares + center * (2 * s.sum + n * center);
    // Too large for a double.
    if (!std::isfinite(s.squares)) block.spread_ = block.squares_ = s.squares;
    block.min_ = s.min;
    block.max_ = s.max;
    block.zeros_ = s.zeros;
    Join(block);
  }

  // Of the finite elements; spread is the sum of squares of the differences from their mean.
  double seen_ = 0, mean_ = 0, sum_ = 0, spread_ = 0, squares_ = 0;
  double min_ = 0, max_ = 0;
  uint64_t zeros_ = 0, nan_ = 0, inf_ = 0;
};

Total TotalOf(const Scans& scans, DType dtype, const char* p, int64_t n) {
  Total total;
  const int64_t size = static_cast<int64_t>(SizeOf(dtype));
  for (int64_t i = 0; i < n; i += kScanBlock) {
    total.AddBlock(scans, dtype, p + i * size, std::min(kScanBlock, n - i));
  }
  return total;
}

template <typename T, typename F>
NonFinite Count(const T* p, int64_t n, F to_float) {
  NonFinite r;
  for (int64_t i = 0; i < n; ++i) {
    const auto v = to_float(p[i]);
    if (std::isfinite(v)) continue;
    if (std::isnan(v)) {
      if (r.nan++ == 0) r.first_nan = i;
    } else if (r.inf++ == 0) {
      r.first_inf = i;
    }
  }
  return r;
}

}  // namespace

Summary Summarize(const Tensor& t, const EachPiece& each, Instructions instructions) {
  if (!t) return Total().Finish(0);
  const Scans& scans = ScansFor(instructions);
  constexpr int64_t kPiece = 1 << 17;
  const int64_t pieces = (t.numel + kPiece - 1) / kPiece;
  const auto piece = [&](int64_t i) {
    const char* p = t.as<char>() + static_cast<size_t>(i * kPiece) * SizeOf(t.dtype);
    return TotalOf(scans, t.dtype, p, std::min(kPiece, t.numel - i * kPiece));
  };
  Total total;
  if (each && pieces > 1) {
    std::vector<Total> totals(static_cast<size_t>(pieces));
    each(pieces, [&](int64_t i) { totals[static_cast<size_t>(i)] = piece(i); });
    for (const Total& next : totals) total.Join(next);
  } else {
    for (int64_t i = 0; i < pieces; ++i) total.Join(piece(i));
  }
  return total.Finish(static_cast<uint64_t>(t.numel));
}

bool AllFinite(const Tensor& t) {
  if (!t) return true;
  switch (t.dtype) {
    case DType::kFloat32:
      return AllFinite32(t.as<uint32_t>(), t.numel);
    case DType::kFloat64:
      return AllFinite64(t.as<uint64_t>(), t.numel);
    case DType::kFloat16:
      return AllFinite16(t.as<uint16_t>(), t.numel, 0x0400u);
    case DType::kBFloat16:
      return AllFinite16(t.as<uint16_t>(), t.numel, 0x0080u);
    default:
      return true;
  }
}

NonFinite CountNonFinite(const Tensor& t) {
  if (AllFinite(t)) return {};
  switch (t.dtype) {
    case DType::kFloat32:
      return Count(t.as<float>(), t.numel, [](float v) { return v; });
    case DType::kFloat64:
      return Count(t.as<double>(), t.numel, [](double v) { return v; });
    case DType::kFloat16:
      return Count(t.as<uint16_t>(), t.numel, HalfToFloat);
    default:
      return Count(t.as<uint16_t>(), t.numel, BFloat16ToFloat);
  }
}

}  // namespace opstep
