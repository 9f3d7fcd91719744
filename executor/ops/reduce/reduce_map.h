// Reductions that add up a function of the elements: out = M::Finish(sum of M::Map(x)).
#pragma once

#include "ops/reduce/reduce.h"

namespace opstep {

template <typename M, typename T, bool kAlong>
struct ReduceMapBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const auto& state = ctx.state<ReduceState>();
    const T* x = ctx.in(0).as<T>();
    Tensor& out = ctx.out(0);
    T* to = out.as<T>();
    for (int64_t i = 0; i < out.numel; ++i) to[i] = T(0);
    const int64_t n = state.nest.inner_size();
    ForEachRun(state.nest, [&](const std::array<int64_t, 1>& at) OPSTEP_INLINE_LAMBDA {
      T* o = to + at[0];
      if constexpr (kAlong) {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) o[i] = Plus(o[i], M::Map(x[i]));
      } else {
        *o = Plus(*o, SumRun<T>(n, [&](int64_t i) OPSTEP_INLINE_LAMBDA { return M::Map(x[i]); }));
      }
      x += n;
    });
    for (int64_t i = 0; i < out.numel; ++i) to[i] = M::Finish(to[i]);
  }
};

template <typename M>
Kernel PrepareReduceMap(const PrepareContext& ctx) {
  const ReduceState state = MakeReduceState(ctx.op(), ctx.in(0).dims);
  return DispatchTypes<M::kTypes>(ctx.in(0).dtype, [&](auto t) {
    using T = decltype(t);
    if (state.nest.along(0)) return WithState(Best<ReduceMapBody<M, T, true>>(), state);
    return WithState(Best<ReduceMapBody<M, T, false>>(), state);
  });
}

// Gradients in which each element of X is independent: dX = G::Do(x, out, dout). G has kNeedsX and
// kNeedsOut.
template <typename G, typename T, bool kAlong>
struct ReduceMapGradBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const auto& state = ctx.state<ReduceState>();
    const T* x = ctx.in(0).as<T>();
    const T* out = ctx.in(1).as<T>();
    const T* dout = ctx.in(2).as<T>();
    T* dx = ctx.out(0).as<T>();
    const int64_t n = state.nest.inner_size();
    ForEachRun(state.nest, [&](const std::array<int64_t, 1>& at) OPSTEP_INLINE_LAMBDA {
      const T* d = dout + at[0];
      const auto value = [&](int64_t i) OPSTEP_INLINE_LAMBDA {
        T a{}, o{};
        if constexpr (G::kNeedsX) a = x[i];
        if constexpr (G::kNeedsOut) o = out[at[0] + (kAlong ? i : 0)];
        return G::Do(a, o, d[kAlong ? i : 0]);
      };
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) dx[i] = value(i);
      if constexpr (G::kNeedsX) x += n;
      dx += n;
    });
  }
};

template <typename G>
Kernel PrepareReduceMapGrad(const PrepareContext& ctx) {
  const ReduceState state = MakeReduceState(ctx.op(), ctx.in(0).dims);
  return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
    using T = decltype(t);
    if (state.nest.along(0)) return WithState(Best<ReduceMapGradBody<G, T, true>>(), state);
    return WithState(Best<ReduceMapGradBody<G, T, false>>(), state);
  });
}

template <typename G>
bool RegisterReduceMapGrad(std::string type, std::string doc,
                           void (*grad)(GradContext&) = nullptr) {
  Op op = ReduceGradOp(std::move(type), std::move(doc));
  op.In("X", "input of the forward op", kFloats);
  if (!G::kNeedsX) op.ShapeOnly();
  op.In("out", "output of the forward op", kFloats);
  if (!G::kNeedsOut) op.ShapeOnly();
  return op.In("dout", "gradient of out", kFloats)
      .Out("dX", "gradient of X", kFloats)
      .Prepare(PrepareReduceMapGrad<G>)
      .Grad(grad)
      .Register();
}

inline void ReduceMapGrad(GradContext& g) {
  g.EmitGrad(g.op().type() + "_grad", {"X"}, {"out"}, {"out"}, {"X"});
}

}  // namespace opstep
