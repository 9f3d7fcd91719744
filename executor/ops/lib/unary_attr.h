// Kernels of functions of one element that have parameters.
// F<T> is made from the op's attributes when the kernel is chosen, and is the kernel's state.
#pragma once

#include "ops/lib/unary_op.h"

namespace opstep {

// out[i] = f(in(0)[i]); in place is fine.
template <template <typename> typename F, typename T>
struct UnaryAttrBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const F<T> f = ctx.state<F<T>>();
    using R = decltype(f(T{}));
    const T* x = ctx.in(0).as<T>();
    R* out = ctx.out(0).as<R>();
    const int64_t n = ctx.out(0).numel;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = f(x[i]);
  }
};

template <template <typename> typename F, Types kTypes = Types::kFloats>
Kernel PrepareUnaryAttr(const PrepareContext& ctx) {
  return DispatchTypes<kTypes>(ctx.in(0).dtype, [&](auto t) {
    using T = decltype(t);
    return SplitFlat(ctx, WithState(Best<UnaryAttrBody<F, T>>(), F<T>(ctx.op())));
  });
}

// dX[i] = g(in(0)[i], dout[i]), where in(0) is the forward input or output; in place of either.
template <template <typename> typename G, typename T>
struct UnaryAttrGradBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const G<T> g = ctx.state<G<T>>();
    const T* v = ctx.in(0).as<T>();
    const T* d = ctx.in(1).as<T>();
    T* dx = ctx.out(0).as<T>();
    const int64_t n = ctx.out(0).numel;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) dx[i] = g(v[i], d[i]);
  }
};

template <template <typename> typename G>
Kernel PrepareUnaryAttrGrad(const PrepareContext& ctx) {
  return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
    using T = decltype(t);
    return SplitFlat(ctx, WithState(Best<UnaryAttrGradBody<G, T>>(), G<T>(ctx.op())));
  });
}

}  // namespace opstep
