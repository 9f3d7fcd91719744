// The 16-bit formats, for code that computes in float. Rounding is to nearest even. Written without
// branches, so that loops over them can be vectorised.
#pragma once

#include <bit>
#include <cstdint>

namespace opstep {

inline float BFloat16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t FloatToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>(value != value ? (bits >> 16) | 0x40u : rounded);
}

inline float HalfToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t rest = bits & 0x7fffu;
  // Inf and NaN keep their mantissa; the others are scaled by a multiplication, which is exact.
  const float magnitude = std::bit_cast<float>(rest << 13) * 0x1p112f;
  const uint32_t scaled = std::bit_cast<uint32_t>(magnitude);
  return std::bit_cast<float>(sign | (rest >= 0x7c00u ? 0x7f800000u | (rest << 13) : scaled));
}

inline uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t rest = bits & 0x7fffffffu;
  // Subnormal: adding 0.5 lets the float addition round at the right bit.
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(rest) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (rest + 0xfffu + ((rest >> 13) & 1u) - 0x38000000u) >> 13;
  uint32_t half = rest < 0x38800000u ? small : normal;
  half = rest >= 0x477ff000u ? 0x7c00u : half;
  half = rest > 0x7f800000u ? 0x7e00u : half;
  return static_cast<uint16_t>(sign | half);
}

// A float that rounds to 16 bits as the double would: an inexact float gets an odd last bit, so
// that it never lies halfway between two 16-bit values.
inline float ForRounding(double value) {
  const float near = static_cast<float>(value);
  const double back = static_cast<double>(near);
  if (back == value || value != value || back - back != 0.0) return near;
  uint32_t bits = std::bit_cast<uint32_t>(near);
  if ((back > value) == (value > 0.0)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

// Elements of tensors. Arithmetic converts them to float.
struct Half {
  uint16_t bits;
  Half() = default;
  explicit Half(float value) : bits(FloatToHalf(value)) {}
  explicit Half(double value) : Half(ForRounding(value)) {}
  operator float() const { return HalfToFloat(bits); }
};

struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  explicit BFloat16(float value) : bits(FloatToBFloat16(value)) {}
  explicit BFloat16(double value) : BFloat16(ForRounding(value)) {}
  operator float() const { return BFloat16ToFloat(bits); }
};

}  // namespace opstep
