// The shape rule of gradients of ops that change only the sizes or the dtype.
#pragma once

#include "ops/op.h"

namespace opstep {

// For gradients of ops that change only the sizes or the dtype: dX is like X (input 0), and dout
// (input 1) has the same number of elements.
inline void SameElementsGrad(ShapeContext& ctx) {
  const Dims &x = ctx.in(0).dims, &dout = ctx.in(1).dims;
  OPSTEP_CHECK(!x.known() || !dout.known() || x.numel() == dout.numel(), "X is ", x.ToString(),
               " but dout is ", dout.ToString(), ": they must have equally many elements");
  ctx.set_out(0, ctx.in(0));
}

}  // namespace opstep
