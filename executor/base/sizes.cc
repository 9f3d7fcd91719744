// The largest absolute value of a tensor, and elements beyond a limit.
#include "base/sizes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/half.h"
#include "base/wide.h"

namespace opstep {
namespace {

// Without their signs, floats are ordered as their bits are; only NaN is above Inf.
template <typename Bits>
[[gnu::always_inline]] inline Bits LargestBits(const Bits* bits, int64_t n) {
  constexpr Bits kMagnitude = static_cast<Bits>(std::numeric_limits<Bits>::max() >> 1);
  Bits largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const Bits size = bits[i] & kMagnitude;
    largest = size > largest ? size : largest;
  }
  return largest;
}

OPSTEP_WIDE uint16_t Largest16(const uint16_t* p, int64_t n) { return LargestBits(p, n); }
OPSTEP_WIDE uint32_t Largest32(const uint32_t* p, int64_t n) { return LargestBits(p, n); }
OPSTEP_WIDE uint64_t Largest64(const uint64_t* p, int64_t n) { return LargestBits(p, n); }

template <typename F>
auto WithFloats(const Tensor& t, F&& f) {
  switch (t.dtype) {
    case DType::kFloat64:
      return f(t.as<double>(), [](double v) { return v; });
    case DType::kFloat16:
      return f(t.as<uint16_t>(), HalfToFloat);
    case DType::kBFloat16:
      return f(t.as<uint16_t>(), BFloat16ToFloat);
    default:
      return f(t.as<float>(), [](float v) { return v; });
  }
}

double LargestOf(const Tensor& t) {
  switch (t.dtype) {
    case DType::kFloat32:
      return std::bit_cast<float>(Largest32(t.as<uint32_t>(), t.numel));
    case DType::kFloat64:
      return std::bit_cast<double>(Largest64(t.as<uint64_t>(), t.numel));
    case DType::kFloat16:
      return HalfToFloat(Largest16(t.as<uint16_t>(), t.numel));
    case DType::kBFloat16:
      return BFloat16ToFloat(Largest16(t.as<uint16_t>(), t.numel));
    default:
      return 0;
  }
}

}  // namespace

double LargestSize(const Tensor& t) {
  if (!t) return 0;
  const double largest = LargestOf(t);
  if (!std::isnan(largest)) return largest;
  return WithFloats(t, [&](const auto* p, auto to_float) {
    double size = 0;
    for (int64_t i = 0; i < t.numel; ++i) {
      const double v = std::fabs(static_cast<double>(to_float(p[i])));
      if (v > size) size = v;
    }
    return size;
  });
}

Beyond CountBeyond(const Tensor& t, double limit) {
  Beyond found;
  if (!t || !IsFloat(t.dtype)) return found;
  WithFloats(t, [&](const auto* p, auto to_float) {
    for (int64_t i = 0; i < t.numel; ++i) {
      if (!(std::fabs(static_cast<double>(to_float(p[i]))) > limit)) continue;
      if (found.count++ == 0) found.first = i;
    }
  });
  return found;
}

}  // namespace opstep
