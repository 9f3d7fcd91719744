// Log1p, expm1, hyperbolic and inverse functions for vectorised loops over float32 (within 4 ulp).
// In float64 they are those of the C library. The polynomials are minimax fits of relative
// error.
#pragma once

#include "ops/lib/numeric.h"

namespace opstep {

// log(1 + x), exact also where 1 + x rounds x away.
OPSTEP_INLINE float Log1p(float x) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float u = 1.0f + x;
  // The factor corrects the loss of the addition.
  const float y = Log(u) * (x / (u - 1.0f));
  return u == 1.0f || x == kInf ? x : y;
}

// log(1 + exp(x)), a smooth max(x, 0).
OPSTEP_INLINE float Log1pExp(float x) {
  const float e = Exp(-std::fabs(x));
  // log(1 + e) = 2 atanh(s).
  const float s = e / (2.0f + e);
  const float z = s * s;
  float p = 2.8011985677e-1f;
  p = p * z + 2.8001805528e-1f;
  p = p * z + 4.0021527222e-1f;
  p = p * z + 6.6666416286e-1f;
  return (x < 0.0f ? 0.0f : x) + (p * z * s + (s + s));
}

// exp(x) - 1.
OPSTEP_INLINE float Expm1(float x) {
  float p = 1.9849809999e-4f;
  p = p * x + 1.3996176379e-3f;
  p = p * x + 8.3335790339e-3f;
  p = p * x + 4.1665358596e-2f;
  p = p * x + 1.6666663986e-1f;
  p = p * x + 5.0000003853e-1f;
  const float near = p * (x * x) + x;
  const float far = Exp(x) - 1.0f;
  return std::fabs(x) > 0.5f ? far : near;
}

OPSTEP_INLINE float Sinh(float x) {
  const float z = x * x;
  float p = 2.8169512153e-6f;
  p = p * z + 1.9836159780e-4f;
  p = p * z + 8.3333500582e-3f;
  p = p * z + 1.6666666498e-1f;
  const float near = p * z * x + x;
  const float a = std::fabs(x);
  // exp(a) as a square: its half may be finite where it is not.
  const float h = Exp(0.5f * a);
  const float far = std::copysign(0.5f * h * h - 0.5f / (h * h), x);
  return a > 1.0f ? far : near;
}

OPSTEP_INLINE float Cosh(float x) {
  const float h = Exp(0.5f * std::fabs(x));
  return 0.5f * h * h + 0.5f / (h * h);
}

OPSTEP_INLINE float Asinh(float x) {
  const float a = std::fabs(x);
  const float z = a * a;
  const float near = Log1p(a + z / (1.0f + std::sqrt(z + 1.0f)));
  const float far = Log(a) + 0.693147181f;
  return std::copysign(a > 1e9f ? far : near, x);
}

OPSTEP_INLINE float Acosh(float x) {
  const float t = x - 1.0f;
  const float near = Log1p(t + std::sqrt(t * t + (t + t)));
  const float far = Log(x) + 0.693147181f;
  const float y = x > 1e9f ? far : near;
  return x < 1.0f ? std::numeric_limits<float>::quiet_NaN() : y;
}

OPSTEP_INLINE float Atanh(float x) {
  const float a = std::fabs(x);
  return std::copysign(0.5f * Log1p((a + a) / (1.0f - a)), x);
}

// asin(x) for |x| up to 1/2, where z is x * x.
OPSTEP_INLINE float AsinNear(float x, float z) {
  float p = 4.2166302975e-2f;
  p = p * z + 2.4179518139e-2f;
  p = p * z + 4.5470375198e-2f;
  p = p * z + 7.4952976498e-2f;
  p = p * z + 1.6666752482e-1f;
  return p * z * x + x;
}

OPSTEP_INLINE float Asin(float x) {
  const float a = std::fabs(x);
  const float half = 0.5f * (1.0f - a);
  const float root = std::sqrt(half);
  const bool far = a > 0.5f;
  const float y = AsinNear(far ? root : a, far ? half : a * a);
  return std::copysign(far ? 1.57079633f - (y + y) : y, x);
}

OPSTEP_INLINE float Acos(float x) {
  const float a = std::fabs(x);
  const float half = 0.5f * (1.0f - a);
  const float root = std::sqrt(half);
  const bool far = a > 0.5f;
  const float y = AsinNear(far ? root : x, far ? half : x * x);
  const float twice = y + y;
  return !far ? 1.57079633f - y : x < 0.0f ? 3.14159265f - twice : twice;
}

OPSTEP_INLINE float Atan(float x) {
  const float a = std::fabs(x);
  // atan(a) = pi/2 + atan(-1/a) = pi/4 + atan((a - 1) / (a + 1)).
  const bool large = a > 2.41421356f;
  const bool middle = a > 0.414213562f;
  const float over = large ? -1.0f : middle ? a - 1.0f : a;
  const float under = large ? a : middle ? a + 1.0f : 1.0f;
  const float y = over / under;
  const float z = y * y;
  float p = -6.0782216963e-2f;
  p = p * z + 1.0593813858e-1f;
  p = p * z - 1.4243533365e-1f;
  p = p * z + 1.9998471517e-1f;
  p = p * z - 3.3333315189e-1f;
  const float start = large ? 1.57079633f : middle ? 0.785398163f : 0.0f;
  return std::copysign(start + (p * z * y + y), x);
}

OPSTEP_INLINE double Log1p(double x) { return std::log1p(x); }
OPSTEP_INLINE double Log1pExp(double x) {
  return (x < 0 ? 0 : x) + std::log1p(std::exp(-std::fabs(x)));
}
OPSTEP_INLINE double Expm1(double x) { return std::expm1(x); }
OPSTEP_INLINE double Sinh(double x) { return std::sinh(x); }
OPSTEP_INLINE double Cosh(double x) { return std::cosh(x); }
OPSTEP_INLINE double Asinh(double x) { return std::asinh(x); }
OPSTEP_INLINE double Acosh(double x) { return std::acosh(x); }
OPSTEP_INLINE double Atanh(double x) { return std::atanh(x); }
OPSTEP_INLINE double Asin(double x) { return std::asin(x); }
OPSTEP_INLINE double Acos(double x) { return std::acos(x); }
OPSTEP_INLINE double Atan(double x) { return std::atan(x); }

}  // namespace opstep
