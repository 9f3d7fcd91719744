// The error function and the normal distribution, for loops over float32 that are vectorised.
#pragma once

#include "ops/lib/numeric.h"

namespace opstep {

// erf(x) for |x| up to 1.
OPSTEP_INLINE float ErfNear(float x) {
  const float z = x * x;
  float p = 7.8538919698e-5f;
  p = p * z - 8.0102036589e-4f;
  p = p * z + 5.1883289527e-3f;
  p = p * z - 2.6853812705e-2f;
  p = p * z + 1.1283585171e-1f;
  p = p * z - 3.7612625827e-1f;
  p = p * z + 1.1283791657f;
  return p * x;
}

// 1 - erf(a) for a from 0.9.
OPSTEP_INLINE float ErfcFar(float a) {
  const float t = 1.0f / (1.0f + 0.5f * a);
  float p = 7.4211056028e-2f;
  p = p * t - 1.6412292138e-1f;
  p = p * t - 2.7941801637e-3f;
  p = p * t + 1.2591037713e-1f;
  p = p * t + 1.4884401337e-1f;
  p = p * t + 2.5551484739e-1f;
  p = p * t + 2.8056429388e-1f;
  p = p * t + 2.8223885204e-1f;
  p = p * t - 5.6470873441e-6f;
  return p * Exp(-a * a);
}

OPSTEP_INLINE float Erf(float x) {
  const float a = std::fabs(x);
  return a > 1.0f ? std::copysign(1.0f - ErfcFar(a), x) : ErfNear(x);
}

// The share of the normal distribution below x; small shares keep their digits.
OPSTEP_INLINE float NormalCdf(float x) {
  const float y = x * 0.707106781f;
  const float a = std::fabs(y);
  const float tail = 0.5f * ErfcFar(a);
  const float far = x < 0.0f ? tail : 1.0f - tail;
  return a > 1.0f ? far : 0.5f + 0.5f * ErfNear(y);
}

OPSTEP_INLINE double Erf(double x) { return std::erf(x); }
OPSTEP_INLINE double NormalCdf(double x) { return 0.5 * std::erfc(x * -0.70710678118654752); }

// exp(-x² / 2) / sqrt(2 pi), the derivative of NormalCdf.
template <typename T>
OPSTEP_INLINE T NormalDensity(T x) {
  return T(0.39894228040143268) * Exp(T(-0.5) * x * x);
}

}  // namespace opstep
