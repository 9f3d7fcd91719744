// DType: the dtypes of tensors, their C++ types, and dispatch over them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/half.h"

namespace opstep {

// The numbers are those of proto::DataType.
enum class DType : uint8_t {
  kNone = 0,
  kFloat32 = 1,
  kFloat64 = 2,
  kFloat16 = 3,
  kBFloat16 = 4,
  kInt8 = 5,
  kInt16 = 6,
  kInt32 = 7,
  kInt64 = 8,
  kUInt8 = 9,
  kBool = 10,
};

size_t SizeOf(DType dtype);
// NumPy's names: "float32".
std::string_view NameOf(DType dtype);
std::optional<DType> DTypeFromName(std::string_view name);

inline bool IsFloat(DType d) { return d >= DType::kFloat32 && d <= DType::kBFloat16; }
inline bool IsInteger(DType d) { return d >= DType::kInt8 && d <= DType::kUInt8; }

// Most kernels are compiled for float32, float64, int32, int64 and bool. For the narrow dtypes they
// run on the next wider one of these, and the results are rounded or cut once
// (ops/kernel_preparation.h).
constexpr DType Widened(DType d) {
  switch (d) {
    case DType::kFloat16:
    case DType::kBFloat16:
      return DType::kFloat32;
    case DType::kInt8:
    case DType::kInt16:
    case DType::kUInt8:
      return DType::kInt32;
    default:
      return d;
  }
}

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kFloat32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kFloat64;
};
template <>
struct DTypeOf<Half> {
  static constexpr DType value = DType::kFloat16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::kBFloat16;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::kInt8;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::kInt16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kInt32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kInt64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kUInt8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};

// A set of dtypes that a slot takes. The op's kernel sees a dtype that it `Widens` as the wider
// dtype.
class DTypeSet {
 public:
  constexpr DTypeSet() = default;
  template <typename... D>
  constexpr explicit DTypeSet(D... dtypes) : bits_((0u | ... | (1u << static_cast<int>(dtypes)))) {}
  // The set with more dtypes, which the kernel sees as wider ones.
  template <typename... D>
  constexpr DTypeSet AndWidened(D... dtypes) const {
    DTypeSet r = *this;
    r.widened_ |= DTypeSet(dtypes...).bits_ & ~bits_;
    r.bits_ |= r.widened_;
    return r;
  }
  constexpr bool Has(DType d) const { return (bits_ >> static_cast<int>(d)) & 1u; }
  constexpr bool Widens(DType d) const { return (widened_ >> static_cast<int>(d)) & 1u; }
  constexpr DTypeSet operator|(DTypeSet o) const {
    DTypeSet r;
    r.bits_ = bits_ | o.bits_;
    r.widened_ = r.bits_ & ~((bits_ & ~widened_) | (o.bits_ & ~o.widened_));
    return r;
  }
  // "float32, float64"
  std::string Names() const;

 private:
  uint32_t bits_ = 0;
  uint32_t widened_ = 0;
};

// kAllFloats and kEvery are for kernels that only move elements and so take the narrow dtypes as
// they are; the others are for kernels that compute.
inline constexpr DTypeSet kFloats =
    DTypeSet(DType::kFloat32, DType::kFloat64).AndWidened(DType::kFloat16, DType::kBFloat16);
inline constexpr DTypeSet kAllFloats(DType::kFloat32, DType::kFloat64, DType::kFloat16,
                                     DType::kBFloat16);
inline constexpr DTypeSet kInts =
    DTypeSet(DType::kInt32, DType::kInt64).AndWidened(DType::kInt8, DType::kInt16, DType::kUInt8);
inline constexpr DTypeSet kBools(DType::kBool);
inline constexpr DTypeSet kNumbers = kFloats | kInts;
inline constexpr DTypeSet kAny = kNumbers | kBools;
inline constexpr DTypeSet kEvery(DType::kFloat32, DType::kFloat64, DType::kFloat16,
                                 DType::kBFloat16, DType::kInt8, DType::kInt16, DType::kInt32,
                                 DType::kInt64, DType::kUInt8, DType::kBool);

// Calls f(T{}) with the C++ type of a dtype; the first three use the dtypes that kernels see.
template <typename F>
decltype(auto) DispatchFloats(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat32:
      return f(float{});
    case DType::kFloat64:
      return f(double{});
    default:
      Fail("has no kernel for ", NameOf(dtype), "; it takes float32, float64");
  }
}

template <typename F>
decltype(auto) DispatchNumbers(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kInt32:
      return f(int32_t{});
    case DType::kInt64:
      return f(int64_t{});
    default:
      return DispatchFloats(dtype, std::forward<F>(f));
  }
}

template <typename F>
decltype(auto) DispatchAny(DType dtype, F&& f) {
  if (dtype == DType::kBool) return f(bool{});
  return DispatchNumbers(dtype, std::forward<F>(f));
}

template <typename F>
decltype(auto) DispatchAllFloats(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat16:
      return f(Half{});
    case DType::kBFloat16:
      return f(BFloat16{});
    default:
      return DispatchFloats(dtype, std::forward<F>(f));
  }
}

template <typename F>
decltype(auto) DispatchEvery(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat16:
      return f(Half{});
    case DType::kBFloat16:
      return f(BFloat16{});
    case DType::kInt8:
      return f(int8_t{});
    case DType::kInt16:
      return f(int16_t{});
    case DType::kUInt8:
      return f(uint8_t{});
    default:
      return DispatchAny(dtype, std::forward<F>(f));
  }
}

}  // namespace opstep
