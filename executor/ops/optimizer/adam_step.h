// The kernel and the shape rule that adam and adamw share.
#pragma once

#include <cmath>

#include "ops/lib/dispatch.h"
#include "ops/lib/simd.h"
#include "ops/optimizer/optimizer_rules.h"

namespace opstep {

struct AdamOptions {
  double beta1, beta2, epsilon, decay;
};

// Inputs param, grad, moment1, moment2, lr, step; outputs param, moment1, moment2. Weight decay is
// part of the gradient, or decoupled from it.
template <typename T, bool kDecoupled>
struct AdamBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const AdamOptions& options = ctx.state<AdamOptions>();
    const double step = static_cast<double>(*ctx.in(5).as<int64_t>()) + 1;
    const double rate = static_cast<double>(*ctx.in(4).as<T>());
    const T beta1 = static_cast<T>(options.beta1);
    const T beta2 = static_cast<T>(options.beta2);
    const T rest1 = static_cast<T>(1 - options.beta1);
    const T rest2 = static_cast<T>(1 - options.beta2);
    const T epsilon = static_cast<T>(options.epsilon);
    // The moments start at 0; this takes away how that draws them towards 0.
    const T scale1 = static_cast<T>(rate / (1 - std::pow(options.beta1, step)));
    const T scale2 = static_cast<T>(1 / std::sqrt(1 - std::pow(options.beta2, step)));
    const T decay = static_cast<T>(kDecoupled ? rate * options.decay : options.decay);
    const T* param = ctx.in(0).as<T>();
    const T* grad = ctx.in(1).as<T>();
    const T* moment1 = ctx.in(2).as<T>();
    const T* moment2 = ctx.in(3).as<T>();
    T* param_out = ctx.out(0).as<T>();
    T* moment1_out = ctx.out(1).as<T>();
    T* moment2_out = ctx.out(2).as<T>();
    const int64_t n = ctx.out(0).numel;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const T p = param[i];
      const T g = kDecoupled ? grad[i] : grad[i] + decay * p;
      const T m = beta1 * moment1[i] + rest1 * g;
      const T v = beta2 * moment2[i] + rest2 * g * g;
      moment1_out[i] = m;
      moment2_out[i] = v;
      param_out[i] =
          (kDecoupled ? p - decay * p : p) - scale1 * m / (std::sqrt(v) * scale2 + epsilon);
    }
  }
};

inline void AdamShape(ShapeContext& ctx) {
  OptimizerShape(ctx, 3, {"grad", "moment1", "moment2"});
  CheckOneElement(ctx.in(5), "step");
}

template <bool kDecoupled>
Kernel PrepareAdam(const PrepareContext& ctx) {
  const OpView& op = ctx.op();
  const AdamOptions options{op.Float("beta1"), op.Float("beta2"), op.Float("epsilon"),
                            op.Float("weight_decay")};
  return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
    return WithState(Best<AdamBody<decltype(t), kDecoupled>>(), options);
  });
}

}  // namespace opstep
