#include "base/summary.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/half.h"
#include "base/wide.h"

// Additions are written out in fixed lanes, so every version of OPSTEP_WIDE gives the same bits.
namespace opstep {
namespace {

// Elements that stay in the first-level cache between the passes over them.
constexpr int64_t kBlock = 2048;
constexpr int kLanes = 16;

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

template <typename T>
struct BlockStats {
  T min, max;
  double sum = 0, squares = 0;  // squares: of the differences from the block's mean
  uint64_t zeros = 0;
};

// Finite elements only, n > 0.
template <typename T>
[[gnu::always_inline]] inline BlockStats<T> ScanBlock(const T* p, int64_t n) {
  using Count = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  T low[kLanes], high[kLanes];
  double sums[kLanes] = {}, squares[kLanes] = {};
  Count zeros[kLanes] = {};
  for (int l = 0; l < kLanes; ++l) low[l] = high[l] = p[0];
  const int64_t whole = n - n % kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      const T v = p[i + l];
      low[l] = v < low[l] ? v : low[l];
      high[l] = v > high[l] ? v : high[l];
      sums[l] += static_cast<double>(v);
      zeros[l] += v == T{0};
    }
  }
  for (int64_t i = whole; i < n; ++i) {
    const int l = static_cast<int>(i - whole);
    low[l] = std::min(low[l], p[i]);
    high[l] = std::max(high[l], p[i]);
    sums[l] += static_cast<double>(p[i]);
    zeros[l] += p[i] == T{0};
  }
  BlockStats<T> r{low[0], high[0]};
  for (int l = 0; l < kLanes; ++l) {
    r.min = std::min(r.min, low[l]);
    r.max = std::max(r.max, high[l]);
    r.sum += sums[l];
    r.zeros += zeros[l];
  }
  const double mean = r.sum / static_cast<double>(n);
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      const double d = static_cast<double>(p[i + l]) - mean;
      squares[l] += d * d;
    }
  }
  for (int64_t i = whole; i < n; ++i) {
    const double d = static_cast<double>(p[i]) - mean;
    squares[i - whole] += d * d;
  }
  for (double s : squares) r.squares += s;
  return r;
}

OPSTEP_WIDE BlockStats<float> ScanFloats(const float* p, int64_t n) { return ScanBlock(p, n); }
OPSTEP_WIDE BlockStats<double> ScanDoubles(const double* p, int64_t n) { return ScanBlock(p, n); }

// Joins blocks by the parallel-variance rule: no cancellation, whatever the mean.
class Total {
 public:
  template <typename T>
  void Add(const T* p, int64_t n) {
    if (!AllFiniteOf(p, n)) {
      T finite[kBlock];
      int64_t kept = 0;
      for (int64_t i = 0; i < n; ++i) {
        finite[kept] = p[i];
        kept += std::isfinite(p[i]);
        summary_.nan += std::isnan(p[i]);
        summary_.inf += std::isinf(p[i]);
      }
      if (kept > 0) AddFinite(finite, kept);
    } else if (n > 0) {
      AddFinite(p, n);
    }
  }

  // As if the elements of `next` had followed.
  void Join(const Total& next) {
    summary_.nan += next.summary_.nan;
    summary_.inf += next.summary_.inf;
    if (next.seen_ == 0) return;
    summary_.zeros += next.summary_.zeros;
    JoinMoments(next.seen_, next.mean_, next.squares_, next.summary_.min, next.summary_.max);
  }

  Summary Finish(uint64_t count) {
    summary_.count = count;
    if (seen_ == 0) {
      summary_.min = summary_.max = summary_.mean = summary_.std = std::nan("");
    } else {
      summary_.mean = mean_;
      summary_.std = std::sqrt(squares_ / seen_);
    }
    return summary_;
  }

 private:
  static bool AllFiniteOf(const float* p, int64_t n) {
    return AllFinite32(reinterpret_cast<const uint32_t*>(p), n);
  }
  static bool AllFiniteOf(const double* p, int64_t n) {
    return AllFinite64(reinterpret_cast<const uint64_t*>(p), n);
  }
  static BlockStats<float> Scan(const float* p, int64_t n) { return ScanFloats(p, n); }
  static BlockStats<double> Scan(const double* p, int64_t n) { return ScanDoubles(p, n); }

  template <typename T>
  void AddFinite(const T* p, int64_t n) {
    const BlockStats<T> block = Scan(p, n);
    const double size = static_cast<double>(n);
    summary_.zeros += block.zeros;
    JoinMoments(size, block.sum / size, block.squares, block.min, block.max);
  }

  void JoinMoments(double size, double mean, double squares, double min, double max) {
    const double delta = mean - mean_;
    summary_.min = seen_ == 0 ? min : std::min(summary_.min, min);
    summary_.max = seen_ == 0 ? max : std::max(summary_.max, max);
    squares_ += squares + (seen_ == 0 ? 0 : delta * delta * (seen_ * size / (seen_ + size)));
    mean_ = seen_ == 0 ? mean : mean_ + delta * (size / (seen_ + size));
    seen_ += size;
  }

  Summary summary_;
  double seen_ = 0, mean_ = 0, squares_ = 0;
};

template <typename C, typename T, typename F>
Total TotalAs(const T* data, int64_t n, F convert) {
  Total total;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t size = std::min(kBlock, n - i);
    if constexpr (std::is_same_v<C, T>) {
      total.Add(data + i, size);
    } else {
      C block[kBlock];
      for (int64_t j = 0; j < size; ++j) block[j] = convert(data[i + j]);
      total.Add(block, size);
    }
  }
  return total;
}

template <typename C, typename T>
Total TotalAs(const Tensor& t) {
  return TotalAs<C>(t.as<T>(), t.numel, [](T v) { return static_cast<C>(v); });
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

Total TotalOf(const Tensor& t) {
  switch (t.dtype) {
    case DType::kFloat32:
      return TotalAs<float, float>(t);
    case DType::kFloat64:
      return TotalAs<double, double>(t);
    case DType::kFloat16:
      return TotalAs<float>(t.as<uint16_t>(), t.numel, HalfToFloat);
    case DType::kBFloat16:
      return TotalAs<float>(t.as<uint16_t>(), t.numel, BFloat16ToFloat);
    case DType::kInt8:
      return TotalAs<float, int8_t>(t);
    case DType::kInt16:
      return TotalAs<float, int16_t>(t);
    case DType::kInt32:
      return TotalAs<double, int32_t>(t);
    case DType::kInt64:
      return TotalAs<double, int64_t>(t);
    case DType::kUInt8:
      return TotalAs<float, uint8_t>(t);
    // Read as bytes: whatever a kernel wrote counts as true when it is not zero.
    case DType::kBool:
      return TotalAs<float>(t.as<uint8_t>(), t.numel, [](uint8_t v) { return v ? 1.f : 0.f; });
    case DType::kNone:
      break;
  }
  return {};
}

}  // namespace

Summary Summarize(const Tensor& t, const EachPiece& each) {
  if (!t) return Total().Finish(0);
  constexpr int64_t kPiece = 1 << 21;
  std::vector<Total> totals(static_cast<size_t>((t.numel + kPiece - 1) / kPiece));
  const auto piece = [&](int64_t i) {
    Tensor part;
    part.dtype = t.dtype;
    part.numel = std::min(kPiece, t.numel - i * kPiece);
    part.data = static_cast<char*>(t.data) + static_cast<size_t>(i * kPiece) * SizeOf(t.dtype);
    totals[static_cast<size_t>(i)] = TotalOf(part);
  };
  const int64_t pieces = static_cast<int64_t>(totals.size());
  if (each && pieces > 1) {
    each(pieces, piece);
  } else {
    for (int64_t i = 0; i < pieces; ++i) piece(i);
  }
  Total total;
  for (const Total& next : totals) total.Join(next);
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
