// Calls a function template with the C++ type of a dtype, for a functor's set of dtypes.
#pragma once

#include <utility>

#include "base/dtype.h"

namespace opstep {

// The dtypes that an elementwise functor is compiled for: its `kTypes`.
enum class Types { kFloats, kNumbers, kAny, kBools };

template <Types kTypes, typename F>
decltype(auto) DispatchTypes(DType dtype, F&& f) {
  if constexpr (kTypes == Types::kBools) {
    OPSTEP_CHECK(dtype == DType::kBool, "has no kernel for ", NameOf(dtype), "; it takes bool");
    return f(bool{});
  } else if constexpr (kTypes == Types::kFloats) {
    return DispatchFloats(dtype, std::forward<F>(f));
  } else if constexpr (kTypes == Types::kNumbers) {
    return DispatchNumbers(dtype, std::forward<F>(f));
  } else {
    return DispatchAny(dtype, std::forward<F>(f));
  }
}

}  // namespace opstep
