// Elements as their bits, for ops that move or place them in any dtype.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/dtype.h"
#include "base/half.h"
#include "ir/op_view.h"

namespace opstep {

// Calls f(U{}) with the unsigned integer of an element's size.
template <typename F>
decltype(auto) DispatchRaw(DType dtype, F&& f) {
  switch (SizeOf(dtype)) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

// A number as an element of a dtype, in the low bits.
inline uint64_t ElementBits(DType dtype, double value, std::string_view name) {
  const auto integer = [&]<typename T>(T) -> uint64_t {
    // Limits as doubles: the largest int64 would be rounded up, hence "below the next power".
    const double below = std::ldexp(1.0, std::numeric_limits<T>::digits);
    OPSTEP_CHECK(value == std::trunc(value) && value < below &&
                     value >= static_cast<double>(std::numeric_limits<T>::min()),
                 name, " is ", value, ", which does not fit ", NameOf(dtype));
    return static_cast<uint64_t>(static_cast<T>(value));
  };
  switch (dtype) {
    case DType::kFloat32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    case DType::kFloat64:
      return std::bit_cast<uint64_t>(value);
    case DType::kFloat16:
      return FloatToHalf(static_cast<float>(value));
    case DType::kBFloat16:
      return FloatToBFloat16(static_cast<float>(value));
    case DType::kInt8:
      return integer(int8_t{});
    case DType::kInt16:
      return integer(int16_t{});
    case DType::kInt32:
      return integer(int32_t{});
    case DType::kInt64:
      return integer(int64_t{});
    case DType::kUInt8:
      return integer(uint8_t{});
    default:
      return value != 0.0 ? 1 : 0;
  }
}

// The attribute `dtype`; the dtype of X by default.
inline DType DTypeLike(const OpView& op, DType x) {
  const DType dtype = op.DType("dtype");
  return dtype == DType::kNone ? x : dtype;
}

}  // namespace opstep
