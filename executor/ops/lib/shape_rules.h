// Parts of shape rules. A size of -1 is unknown and fits everything.
#pragma once

#include <algorithm>
#include <string_view>

#include "ops/op.h"

namespace opstep {

inline bool SizesAgree(int64_t a, int64_t b) { return a == b || a < 0 || b < 0; }

inline bool ShapesAgree(const Dims& a, const Dims& b) {
  return a.rank() == b.rank() && std::equal(a.begin(), a.end(), b.begin(), SizesAgree);
}

inline void CheckSameDType(const VarType& a, std::string_view a_name, const VarType& b,
                           std::string_view b_name) {
  OPSTEP_CHECK(a.dtype == b.dtype, a_name, " is ", NameOf(a.dtype), " but ", b_name, " is ",
               NameOf(b.dtype), ": cast one of them");
}

inline void CheckOneElement(const VarType& type, std::string_view name) {
  OPSTEP_CHECK(!type.dims.known() || type.dims.numel() == 1, name, " is ", type.dims.ToString(),
               ": it must have one element");
}

inline Dims BroadcastDims(const Dims& a, std::string_view a_name, const Dims& b,
                          std::string_view b_name) {
  Dims out = a.rank() >= b.rank() ? a : b;
  for (int i = 1; i <= std::min(a.rank(), b.rank()); ++i) {
    const int64_t x = a[a.rank() - i];
    const int64_t y = b[b.rank() - i];
    OPSTEP_CHECK(SizesAgree(x, y) || x == 1 || y == 1, a_name, " is ", a.ToString(), " but ",
                 b_name, " is ", b.ToString(), ": sizes ", x, " and ", y,
                 " do not broadcast; they must be equal or one of them 1");
    // An unknown size next to 1 stays unknown; next to any other size it must turn out to fit.
    out[out.rank() - i] = x == 1 ? y : (y == 1 || y < 0) ? x : y;
  }
  return out;
}

// 0 <= axis < rank.
inline int NormalizeAxis(int64_t axis, const Dims& dims, std::string_view name) {
  const int rank = dims.rank();
  OPSTEP_CHECK(axis >= -rank && axis < rank, "axis ", axis, " is outside ", name, ", which is ",
               dims.ToString(), rank == 0 ? " and has no axes" : "");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

// The usual rules: output i is like input `in`.
template <int kIn>
void OutLikeInput(ShapeContext& ctx) {
  for (int i = 0; i < ctx.n_out(); ++i) ctx.set_out(i, ctx.in(kIn));
}

// Output i is like input i: gradients whose op takes the forward inputs first.
inline void GradsLikeInputs(ShapeContext& ctx) {
  for (int i = 0; i < ctx.n_out(); ++i) ctx.set_out(i, ctx.in(i));
}

// Of attributes `shape` that must be known.
inline Dims DimsFromAttr(const OpView& op, std::string_view name) {
  const std::vector<int64_t> sizes = op.Ints(name);
  for (int64_t size : sizes) {
    OPSTEP_CHECK(size >= 0, name, " holds ", size, ": every size must be 0 or more");
  }
  return Dims(sizes);
}

}  // namespace opstep
