// Writing into tensors: which values fit, and where they go.
#include "debug/expr/assignment.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/half.h"

namespace opstep::expr {
namespace {

// double to float so that a second rounding, to 16 bits, gives what one rounding would: an inexact
// result ends in an odd bit.
float RoundToOdd(double x) {
  const float nearest = static_cast<float>(x);
  if (!std::isfinite(nearest) || static_cast<double>(nearest) == x) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(x)) --bits;
  return std::bit_cast<float>(bits | 1);
}

template <typename C>
[[noreturn]] void DoesNotFit(C x, DType dtype) {
  if constexpr (std::is_floating_point_v<C>) {
    if (!IsFloat(dtype) && !(std::trunc(x) == x)) {
      Fail(x, " is not a whole number: it does not fit ", NameOf(dtype));
    }
  }
  if (dtype == DType::kBool) Fail(x, " does not fit bool: it takes True and False");
  Fail(x, " does not fit ", NameOf(dtype));
}

template <typename T, typename C>
T Fit(C x, DType dtype) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    const T y(RoundToOdd(static_cast<double>(x)));
    if (!std::isfinite(static_cast<float>(y)) && std::isfinite(static_cast<double>(x)))
      DoesNotFit(x, dtype);
    return y;
  } else if constexpr (std::is_floating_point_v<T>) {
    const T y = static_cast<T>(x);
    if (std::isinf(y) && !std::isinf(static_cast<double>(x))) DoesNotFit(x, dtype);
    return y;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!(x == C{0} || x == C{1})) DoesNotFit(x, dtype);
    return x != C{0};
  } else if constexpr (std::is_floating_point_v<C>) {
    // 2^63 itself is a double and does not fit; NaN fails every comparison.
    const double least = static_cast<double>(std::numeric_limits<T>::min());
    const double beyond = std::ldexp(1.0, std::numeric_limits<T>::digits);
    if (!(x >= least && x < beyond && std::trunc(x) == x)) DoesNotFit(x, dtype);
    return static_cast<T>(x);
  } else {
    if (x < std::numeric_limits<T>::min() || x > std::numeric_limits<T>::max())
      DoesNotFit(x, dtype);
    return static_cast<T>(x);
  }
}

template <typename T, typename C>
void Convert(const Value& value, const Tensor& to, Budget& budget) {
  Reader<C> reader(value);
  T* out = static_cast<T*>(to.data);
  for (int64_t i = 0; i < to.numel; i += Reader<C>::kChunk) {
    const int64_t n = std::min(Reader<C>::kChunk, to.numel - i);
    budget.Spend(n);
    const C* from = reader.Next(n);
    for (int64_t j = 0; j < n; ++j) out[i + j] = Fit<T>(from[j], to.dtype);
  }
}

// Elements of the same dtype, as they are; `from` has the shape of `to` and may have steps of 0.
void Copy(const Value& from, char* to, const int64_t* to_strides) {
  const int64_t size = static_cast<int64_t>(SizeOf(from.dtype));
  if (from.numel() == 0) return;
  const int last = from.rank - 1;
  const int64_t n = from.rank > 0 ? from.dims[last] : 1;
  const int64_t from_step = from.rank > 0 ? from.strides[last] : 0;
  const int64_t to_step = from.rank > 0 ? to_strides[last] : 0;
  int64_t index[Dims::kMaxRank] = {};
  const char* read = from.memory();
  const auto row = [&](auto element) {
    for (int64_t i = 0; i < n; ++i)
      std::memcpy(to + i * to_step, read + i * from_step, sizeof(element));
  };
  while (true) {
    if (from_step == size && to_step == size) {
      std::memcpy(to, read, static_cast<size_t>(n * size));
    } else if (size == 1) {
      row(uint8_t{});
    } else if (size == 2) {
      row(uint16_t{});
    } else if (size == 4) {
      row(uint32_t{});
    } else {
      row(uint64_t{});
    }
    int axis = last - 1;
    for (; axis >= 0; --axis) {
      read += from.strides[axis];
      to += to_strides[axis];
      if (++index[axis] < from.dims[axis]) break;
      read -= from.strides[axis] * from.dims[axis];
      to -= to_strides[axis] * from.dims[axis];
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

// `from` as if it had the shape; NumPy also takes away leading axes of one element.
Value Spread(const Tensor& from, const Dims& dims) {
  Value v = Value::View(from);
  int lead = 0;
  while (v.rank - lead > dims.rank() && v.dims[lead] == 1) ++lead;
  const int rank = v.rank - lead, shift = dims.rank() - rank;
  Value out = v;
  out.rank = static_cast<int8_t>(dims.rank());
  for (int i = dims.rank() - 1; i >= 0; --i) {
    const int64_t size = i < shift ? 1 : v.dims[lead + i - shift];
    OPSTEP_CHECK(shift >= 0 && (size == dims[i] || size == 1), "a value of shape ",
                 from.dims.ToString(), " does not fit into ", dims.ToString());
    out.dims[i] = dims[i];
    out.strides[i] = size == 1 ? 0 : v.strides[lead + i - shift];
  }
  OPSTEP_CHECK(shift >= 0, "a value of shape ", from.dims.ToString(), " does not fit into ",
               dims.ToString());
  return out;
}

// Row-major memory with the same elements, that of the value itself when it is so already.
Tensor Dense(const Value& value, Budget& budget) {
  Tensor t(VarType{value.dtype, value.shape()});
  if (value.data != nullptr && value.dense()) {
    t.data = const_cast<char*>(value.data);
    t.owner = std::const_pointer_cast<void>(value.owner);
    return t;
  }
  t.owner = budget.Allocate(t.numel, t.dtype);
  t.data = t.owner.get();
  Copy(value, t.as<char>(), Value::View(t).strides);
  return t;
}

}  // namespace

Tensor Fitted(const Value& value, DType dtype, Budget& budget) {
  if (value.is_array() && value.dtype == dtype) return Dense(value, budget);
  Tensor t(VarType{dtype, value.shape()});
  t.owner = budget.Allocate(t.numel, dtype);
  t.data = t.owner.get();
  DispatchEvery(dtype, [&](auto element) {
    using T = decltype(element);
    if (IsFloat(value.full_dtype())) {
      Convert<T, double>(value, t, budget);
    } else {
      Convert<T, int64_t>(value, t, budget);
    }
  });
  return t;
}

TargetPart::TargetPart(const Node& target, Tensor& tensor, Context& context)
    : memory_(tensor.as<char>()),
      bytes_(tensor.bytes()),
      part_(target.Part(Value::View(tensor), context)) {
  // A list or a mask gives a copy. Of an array of positions it gives the selected positions.
  const uintptr_t begin = reinterpret_cast<uintptr_t>(memory_), end = begin + bytes_;
  const uintptr_t at = reinterpret_cast<uintptr_t>(part_.data);
  if (part_.numel() == 0 || (at >= begin && at < end)) return;
  Tensor all(VarType{DType::kInt64, tensor.dims});
  all.owner = context.budget.Allocate(all.numel, all.dtype);
  all.data = all.owner.get();
  for (int64_t i = 0; i < all.numel; ++i) all.as<int64_t>()[i] = i;
  positions_ = true;
  const DType dtype = part_.dtype;
  part_ = Value::View(Dense(target.Part(Value::View(all), context), context.budget));
  part_.dtype = dtype;
}

void TargetPart::Put(const Tensor& given, Budget& budget) const {
  Tensor from = given;
  const char* begin = from.as<char>();
  if (begin < memory_ + bytes_ && memory_ < begin + from.bytes()) {
    // w[1:] = w[:-1]: what is read must not be what was just written.
    from.owner = budget.Allocate(from.numel, from.dtype);
    from.data = from.owner.get();
    std::memcpy(from.data, given.data, from.bytes());
  }
  const Value spread = Spread(from, part_.shape());
  if (positions_) {
    const Tensor dense = Dense(spread, budget);
    const size_t size = SizeOf(dense.dtype);
    const int64_t* position = reinterpret_cast<const int64_t*>(part_.data);
    for (int64_t i = 0; i < dense.numel; ++i)
      std::memcpy(memory_ + static_cast<size_t>(position[i]) * size,
                  dense.as<char>() + static_cast<size_t>(i) * size, size);
    return;
  }
  Copy(spread, memory_ + (part_.data - memory_), part_.strides);
}

void TargetPart::Write(uint64_t offset, std::string_view bytes) const {
  OPSTEP_CHECK(!positions_ && part_.dense(),
               "that part is not contiguous in memory: assign to it instead");
  const uint64_t total = static_cast<uint64_t>(part_.numel()) * SizeOf(part_.dtype);
  OPSTEP_CHECK(offset <= total && bytes.size() <= total - offset, "bytes ", offset, " to ",
               offset + bytes.size(), " do not fit: there are ", total);
  if (part_.dtype == DType::kBool) {
    for (const char byte : bytes)
      OPSTEP_CHECK(byte == 0 || byte == 1, "a bool is the byte 0 or 1, not ",
                   static_cast<int>(static_cast<uint8_t>(byte)));
  }
  if (!bytes.empty())
    std::memcpy(memory_ + (part_.data - memory_) + offset, bytes.data(), bytes.size());
}

}  // namespace opstep::expr
