// Kernels of elementwise ops with one input, their gradients, and plain copies.
#pragma once

#include <cstring>

#include "ops/lib/dispatch.h"
#include "ops/lib/prefetch.h"
#include "ops/lib/shape_rules.h"
#include "ops/lib/simd.h"
#include "ops/lib/split_flat.h"
#include "ops/op.h"

namespace opstep {

// out[i] = F::Do(in(0)[i]); in place is fine.
template <typename F, typename T>
struct UnaryBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    using R = decltype(F::Do(T{}));
    const T* x = ctx.in(0).as<T>();
    R* out = ctx.out(0).as<R>();
    const int64_t n = ctx.out(0).numel;
    WriteInOrder(out, x, n, [&](int64_t begin, int64_t end) OPSTEP_INLINE_LAMBDA {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) out[i] = F::Do(x[i]);
    });
  }
};

template <typename F>
Kernel PrepareUnary(const PrepareContext& ctx) {
  return DispatchTypes<F::kTypes>(ctx.in(0).dtype, [&](auto t) {
    return SplitFlat(ctx, {Best<UnaryBody<F, decltype(t)>>(), nullptr});
  });
}

// dX[i] = F::Do(in(0)[i], dout[i]), where in(0) is the forward input or output; in place of either.
template <typename F, typename T>
struct UnaryGradBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const T* v = ctx.in(0).as<T>();
    const T* d = ctx.in(1).as<T>();
    T* dx = ctx.out(0).as<T>();
    const int64_t n = ctx.out(0).numel;
    WriteInOrder(dx, d, n, [&](int64_t begin, int64_t end) OPSTEP_INLINE_LAMBDA {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) dx[i] = F::Do(v[i], d[i]);
    });
  }
};

template <typename F>
Kernel PrepareUnaryGrad(const PrepareContext& ctx) {
  return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
    return SplitFlat(ctx, {Best<UnaryGradBody<F, decltype(t)>>(), nullptr});
  });
}

// Copies input kIn to output 0, for any shapes; does nothing when they share memory.
template <int kIn>
Kernel PrepareCopy(const PrepareContext&) {
  return {[](KernelContext& ctx) {
            const Tensor& from = ctx.in(kIn);
            Tensor& to = ctx.out(0);
            if (to.data != from.data && to.numel > 0) std::memcpy(to.data, from.data, to.bytes());
          },
          nullptr};
}

}  // namespace opstep
