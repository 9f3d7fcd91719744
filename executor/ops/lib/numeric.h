// Arithmetic defined for every value, exp, log and tanh that vectorise, sums of a fixed order.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ops/lib/simd.h"

namespace opstep {

// --- Arithmetic that is defined for every value: integers wrap as in NumPy. ---

template <typename T>
OPSTEP_INLINE T Plus(T x, T y) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(x) + static_cast<U>(y));
  } else {
    return x + y;
  }
}

template <typename T>
OPSTEP_INLINE T Minus(T x, T y) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(x) - static_cast<U>(y));
  } else {
    return x - y;
  }
}

template <typename T>
OPSTEP_INLINE T Times(T x, T y) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(x) * static_cast<U>(y));
  } else {
    return x * y;
  }
}

// The larger one; NaN when either is.
template <typename T>
OPSTEP_INLINE T MaxOf(T x, T y) {
  return (x > y || x != x) ? x : y;
}

template <typename T>
OPSTEP_INLINE T MinOf(T x, T y) {
  return (x < y || x != x) ? x : y;
}

// --- Elementary functions that loops over float32 can be vectorised with (within 2 ulp). ---

OPSTEP_INLINE float Exp(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer.
  // Beyond these the result is 0 or infinity anyway. Written so that NaN stays.
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const float shifted = x * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = (p * (r * r) + r) + 1.0f;
  // 2^n in two factors, because it may be below the smallest normal number or above the largest.
  const int32_t e = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound);
  const int32_t half = e >> 1;
  return p * std::bit_cast<float>((half + 127) << 23) *
         std::bit_cast<float>((e - half + 127) << 23);
}

OPSTEP_INLINE float Log(float x) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const bool tiny = x < std::numeric_limits<float>::min();
  const float scaled = tiny ? x * 8388608.0f : x;
  const int32_t bits = std::bit_cast<int32_t>(scaled);
  // m in [sqrt(1/2), sqrt(2)), x = m * 2^e.
  const int32_t high = (bits - 0x3f3504f3) >> 23;
  const float e = static_cast<float>(high) - (tiny ? 23.0f : 0.0f);
  const float m = std::bit_cast<float>(bits - (high << 23)) - 1.0f;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const float z = m * m;
  float y = m * z * p;
  y = y + e * -2.12194440e-4f;
  y = y - 0.5f * z;
  y = m + y;
  y = y + e * 0.693359375f;
  y = x == kInf ? kInf : y;
  y = x == 0.0f ? -kInf : y;
  y = x < 0.0f ? std::numeric_limits<float>::quiet_NaN() : y;
  return x != x ? x : y;
}

OPSTEP_INLINE double Exp(double x) { return std::exp(x); }
OPSTEP_INLINE double Log(double x) { return std::log(x); }

OPSTEP_INLINE float Tanh(float x) {
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float near = p * z * x + x;
  const float a = std::fabs(x);
  const float far = std::copysign(1.0f - 2.0f / (Exp(a + a) + 1.0f), x);
  return a > 0.625f ? far : near;
}

OPSTEP_INLINE double Tanh(double x) { return std::tanh(x); }

template <typename T>
OPSTEP_INLINE T Sigmoid(T x) {
  const T e = Exp(-std::fabs(x));
  return (x < T(0) ? e : T(1)) / (T(1) + e);
}

// --- Sums in an order that does not depend on the instruction set. ---

// The sum of at(0) … at(n - 1). Sums of floats are taken in 16 lanes over short blocks and added up
// in double, so that long ones stay exact enough.
template <typename T, typename F>
OPSTEP_INLINE T SumRun(int64_t n, F&& at) {
  constexpr int kLanes = 16;
  constexpr int64_t kBlock = 1024;
  using Total = std::conditional_t<std::is_floating_point_v<T>, double, T>;
  Total total = 0;
  int64_t i = 0;
  while (n - i >= kLanes) {
    T lanes[kLanes] = {};
    const int64_t end = std::min(n - kLanes, i + kBlock - kLanes);
    for (; i <= end; i += kLanes) {
      for (int k = 0; k < kLanes; ++k) lanes[k] = Plus(lanes[k], static_cast<T>(at(i + k)));
    }
    for (int width = kLanes / 2; width > 0; width /= 2) {
      for (int k = 0; k < width; ++k) lanes[k] = Plus(lanes[k], lanes[k + width]);
    }
    total = Plus(total, static_cast<Total>(lanes[0]));
  }
  for (; i < n; ++i) total = Plus(total, static_cast<Total>(at(i)));
  return static_cast<T>(total);
}

// The same for a combination whose order does not matter.
template <typename T, typename Combine, typename F>
OPSTEP_INLINE T FoldRun(T start, int64_t n, F&& at) {
  constexpr int kLanes = 16;
  T result = start;
  int64_t i = 0;
  if (n >= kLanes) {
    T lanes[kLanes];
    for (int k = 0; k < kLanes; ++k) lanes[k] = start;
    for (; i + kLanes <= n; i += kLanes) {
      for (int k = 0; k < kLanes; ++k) lanes[k] = Combine::Do(lanes[k], static_cast<T>(at(i + k)));
    }
    for (int k = 0; k < kLanes; ++k) result = Combine::Do(result, lanes[k]);
  }
  for (; i < n; ++i) result = Combine::Do(result, static_cast<T>(at(i)));
  return result;
}

}  // namespace opstep
