// Reader: elements of any dtype, read and stored in the three types that expressions compute in.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/half.h"
#include "debug/expr/value.h"

namespace opstep::expr {
namespace {

struct Byte {
  uint8_t bits;  // a bool, whatever byte a kernel wrote into it
};

template <typename C, typename T>
C Convert(T v) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return static_cast<C>(static_cast<float>(v));
  } else if constexpr (std::is_same_v<T, Byte>) {
    return static_cast<C>(v.bits != 0);
  } else {
    return static_cast<C>(v);
  }
}

template <typename F>
decltype(auto) DispatchMemory(DType dtype, F&& f) {
  // A byte that is not 0 or 1 must not be read as a bool.
  if (dtype == DType::kBool) return f(Byte{});
  return DispatchEvery(dtype, std::forward<F>(f));
}

template <typename C>
void LoadRun(DType dtype, const char* from, int64_t stride, int64_t n, C* to) {
  DispatchMemory(dtype, [&](auto t) {
    using T = decltype(t);
    if constexpr (std::is_same_v<C, int64_t> &&
                  (std::is_floating_point_v<T> || std::is_same_v<T, Half> ||
                   std::is_same_v<T, BFloat16>)) {
      Fail("a float cannot be used as a whole number here");
    } else if (stride == sizeof(T)) {
      const T* p = reinterpret_cast<const T*>(from);
      for (int64_t i = 0; i < n; ++i) to[i] = Convert<C>(p[i]);
    } else {
      for (int64_t i = 0; i < n; ++i)
        to[i] = Convert<C>(*reinterpret_cast<const T*>(from + i * stride));
    }
  });
}

template <typename C>
C FromScalar(const Value& v) {
  if (v.kind == Value::Kind::kBool) return static_cast<C>(v.b);
  if (v.kind == Value::Kind::kInt) return static_cast<C>(v.i);
  if constexpr (std::is_same_v<C, int64_t>) {
    Fail("a float cannot be used as a whole number here");
  } else {
    return static_cast<C>(v.f);
  }
}

}  // namespace

Value LoadScalar(DType dtype, const char* memory) {
  if (dtype == DType::kBool)
    return Value::Bool(*reinterpret_cast<const uint8_t*>(memory) != 0, dtype);
  if (IsInteger(dtype)) {
    int64_t i;
    LoadRun(dtype, memory, 0, 1, &i);
    return Value::Int(i, dtype);
  }
  double f;
  LoadRun(dtype, memory, 0, 1, &f);
  return Value::Float(f, dtype);
}

template <typename C>
Reader<C>::Reader(const Value& value, const Dims& dims) {
  if (value.is_scalar() || value.numel() == 1) {
    constant_ = true;
    const C one =
        FromScalar<C>(value.is_scalar() ? value : LoadScalar(value.dtype, value.memory()));
    std::fill_n(buffer_, std::min(kChunk, dims.numel()), one);
    return;
  }
  dtype_ = value.dtype;
  at_ = value.memory();
  // From the outermost axis inwards; an axis that continues its neighbour's memory is joined to it.
  const int lead = dims.rank() - value.rank;
  for (int i = 0; i < dims.rank(); ++i) {
    if (dims[i] == 1) continue;
    const bool spread = i < lead || value.dims[i - lead] == 1;
    const int64_t stride = spread ? 0 : value.strides[i - lead];
    if (rank_ > 0 && strides_[rank_ - 1] == stride * dims[i]) {
      dims_[rank_ - 1] *= dims[i];
      strides_[rank_ - 1] = stride;
    } else {
      dims_[rank_] = dims[i];
      strides_[rank_] = stride;
      index_[rank_++] = 0;
    }
  }
  constexpr int64_t kSize = sizeof(C);
  direct_ = dtype_ == DTypeOf<C>::value && rank_ == 1 && strides_[0] == kSize;
}

template <typename C>
const C* Reader<C>::Next(int64_t n) {
  if (constant_) return buffer_;
  if (direct_) {
    const C* p = reinterpret_cast<const C*>(at_);
    at_ += n * static_cast<int64_t>(sizeof(C));
    return p;
  }
  const int last = rank_ - 1;
  for (int64_t done = 0; done < n;) {
    const int64_t run = std::min(n - done, dims_[last] - index_[last]);
    LoadRun(dtype_, at_, strides_[last], run, buffer_ + done);
    done += run;
    at_ += run * strides_[last];
    index_[last] += run;
    for (int i = last; index_[i] == dims_[i] && i > 0; --i) {
      at_ += strides_[i - 1] - dims_[i] * strides_[i];
      index_[i] = 0;
      ++index_[i - 1];
    }
  }
  return buffer_;
}

template class Reader<float>;
template class Reader<double>;
template class Reader<int64_t>;

template <typename C>
void Store(DType dtype, const C* from, int64_t n, char* to) {
  DispatchMemory(dtype, [&](auto t) {
    using T = decltype(t);
    T* p = reinterpret_cast<T*>(to);
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      for (int64_t i = 0; i < n; ++i) p[i] = T(static_cast<float>(from[i]));
    } else if constexpr (std::is_same_v<T, Byte>) {
      for (int64_t i = 0; i < n; ++i) p[i].bits = from[i] != 0;
    } else if constexpr (std::is_integral_v<T> && !std::is_integral_v<C>) {
      Fail("a float cannot be stored as a whole number");
    } else {
      for (int64_t i = 0; i < n; ++i) p[i] = static_cast<T>(from[i]);
    }
  });
}

template void Store(DType, const float*, int64_t, char*);
template void Store(DType, const double*, int64_t, char*);
template void Store(DType, const int64_t*, int64_t, char*);

}  // namespace opstep::expr
