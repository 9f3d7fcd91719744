// Parts of the shape rules and kernels of ops that run blocks.
#pragma once

#include <algorithm>
#include <cstring>

#include "ops/lib/shape_rules.h"

namespace opstep {

// The types of outside variables that the blocks write, slot `out` from output `first_out` on: as
// in slot X, from input `first_in` on, or in `also` (input 0).
inline void KeepTypes(ShapeContext& ctx, std::string_view out, int first_out, int first_in,
                      const std::string& also = "") {
  const Names inputs = ctx.op().Inputs("X");
  const Names outputs = ctx.op().Outputs(out);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto same = std::find(inputs.begin(), inputs.end(), outputs[i]);
    OPSTEP_CHECK(same != inputs.end() || outputs[i] == also, out, " names '", outputs[i],
                 "', which is not in X: variables that the block writes must exist before");
    const int from = same == inputs.end() ? 0 : first_in + static_cast<int>(same - inputs.begin());
    ctx.set_out(first_out + static_cast<int>(i), ctx.in(from));
  }
}

inline void CheckCount(const OpView& op, std::string_view slot, int expected) {
  const size_t count = op.Outputs(slot).size() + op.Inputs(slot).size();
  OPSTEP_CHECK(static_cast<int>(count) == expected, "it has ", count, " ", slot, " but needs ",
               expected);
}

inline int CountOf(const Names& names) { return static_cast<int>(names.size()); }

// Two alternatives for one result: a size that only one of them knows is taken from it.
inline VarType Merged(const VarType& a, const VarType& b, std::string_view what) {
  OPSTEP_CHECK(a.dtype == b.dtype && a.dims.rank() == b.dims.rank(), what, " is ", a.ToString(),
               " in one block and ", b.ToString(), " in the other: they must be alike");
  VarType type = a;
  for (int i = 0; i < a.dims.rank(); ++i) {
    OPSTEP_CHECK(a.dims[i] == b.dims[i] || a.dims[i] < 0 || b.dims[i] < 0, what, " is ",
                 a.ToString(), " in one block and ", b.ToString(),
                 " in the other: they must be alike");
    if (type.dims[i] < 0) type.dims[i] = b.dims[i];
  }
  return type;
}

inline void CopyValue(const Tensor& from, Tensor& to) {
  if (to.data != from.data && to.numel > 0) std::memcpy(to.data, from.data, to.bytes());
}

}  // namespace opstep
