// Checks of a tensor that a file claims to hold. `what` begins the error sentence.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/tensor.h"

namespace opstep {

// The bytes of a type whose sizes are known, checked against overflow.
inline uint64_t CheckedBytes(const VarType& type, const std::string& what) {
  uint64_t bytes = SizeOf(type.dtype);
  bool fits = true;
  for (const int64_t size : type.dims) {
    fits = fits && !__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes);
  }
  OPSTEP_CHECK(fits && bytes <= static_cast<uint64_t>(INT64_MAX), what, " claims the shape ",
               type.dims.ToString(), ", which is too large");
  return bytes;
}

// C++ gives no meaning to a bool that is neither 0 nor 1.
inline void CheckBools(DType dtype, const void* data, size_t bytes, const std::string& what) {
  if (dtype != DType::kBool) return;
  const auto* values = static_cast<const uint8_t*>(data);
  OPSTEP_CHECK(std::all_of(values, values + bytes, [](uint8_t v) { return v <= 1; }), what,
               " holds a bool that is neither 0 nor 1");
}

}  // namespace opstep
