// The shape rule of ops that change a parameter: inputs param, grad, states…, lr and maybe step.
#pragma once

#include <initializer_list>

#include "ops/lib/shape_rules.h"

namespace opstep {

// Inputs 1 … n_like are like the parameter (input 0), the next one is the learning rate; the
// outputs are the parameter and its states.
inline void OptimizerShape(ShapeContext& ctx, int n_like,
                           std::initializer_list<std::string_view> names) {
  const VarType& param = ctx.in(0);
  for (int i = 1; i <= n_like; ++i) {
    const std::string_view name = names.begin()[i - 1];
    CheckSameDType(param, "param", ctx.in(i), name);
    OPSTEP_CHECK(ShapesAgree(param.dims, ctx.in(i).dims), "param is ", param.dims.ToString(),
                 " but ", name, " is ", ctx.in(i).dims.ToString(), ": they must be alike");
  }
  CheckSameDType(param, "param", ctx.in(n_like + 1), "lr");
  CheckOneElement(ctx.in(n_like + 1), "lr");
  for (int i = 0; i < ctx.n_out(); ++i) ctx.set_out(i, param);
}

}  // namespace opstep
