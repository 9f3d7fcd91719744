// Kernels, shape rules and schemas of elementwise ops of X and Y with broadcasting.
#pragma once

#include <cstring>

#include "ops/lib/dispatch.h"
#include "ops/lib/loop_nest.h"
#include "ops/lib/numeric.h"
#include "ops/lib/prefetch.h"
#include "ops/lib/shape_rules.h"
#include "ops/lib/simd.h"
#include "ops/lib/split_flat.h"
#include "ops/op.h"

namespace opstep {

// `out` has the dtype of X, or bool.
template <bool kToBool = false>
void BinaryShape(ShapeContext& ctx) {
  CheckSameDType(ctx.in(0), "X", ctx.in(1), "Y");
  ctx.set_out(0, {kToBool ? DType::kBool : ctx.in(0).dtype,
                  BroadcastDims(ctx.in(0).dims, "X", ctx.in(1).dims, "Y")});
}

// kX, kY: 1 when the operand advances with the loop, 0 when it stays.
template <typename F, typename T, int kX, int kY, typename R>
OPSTEP_INLINE void BinaryLoop(const T* x, const T* y, R* out, int64_t n) {
  if constexpr (kX == 0) {
    const T a = *x;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = F::Do(a, y[i]);
  } else if constexpr (kY == 0) {
    const T b = *y;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = F::Do(x[i], b);
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = F::Do(x[i], y[i]);
  }
}

// Equal shapes, or one side has a single element.
template <typename F, typename T, int kX, int kY>
struct BinaryFlatBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    using R = decltype(F::Do(T{}, T{}));
    Tensor& out = ctx.out(0);
    if (out.numel == 0) return;
    const T* x = ctx.in(0).as<T>();
    const T* y = ctx.in(1).as<T>();
    R* to = out.as<R>();
    WriteInOrder(
        to, kX != 0 ? x : y, out.numel, [&](int64_t begin, int64_t end) OPSTEP_INLINE_LAMBDA {
          BinaryLoop<F, T, kX, kY>(x + begin * kX, y + begin * kY, to + begin, end - begin);
        });
  }
};

template <typename F, typename T, int kX, int kY>
struct BinaryNestBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    using R = decltype(F::Do(T{}, T{}));
    const auto& nest = ctx.state<LoopNest<2>>();
    const T* x = ctx.in(0).as<T>();
    const T* y = ctx.in(1).as<T>();
    R* out = ctx.out(0).as<R>();
    const int64_t n = nest.inner_size();
    const R* end = out + ctx.out(0).numel;
    const bool asks = WorthAsking(out, x, end - out);
    ForEachRun(nest, [&](const std::array<int64_t, 2>& at) OPSTEP_INLINE_LAMBDA {
      if (asks) AskFor(out, n, std::min<int64_t>(2 * n, end - out));
      BinaryLoop<F, T, kX, kY>(x + at[0], y + at[1], out, n);
      out += n;
    });
  }
};

template <typename F>
Kernel PrepareBinary(const PrepareContext& ctx) {
  const auto nest = MakeLoopNest<2>(ctx.out(0).dims, {ctx.in(0).dims, ctx.in(1).dims});
  const auto make = [&]<typename T, int kX, int kY>() -> Kernel {
    if (nest.rank == 1) return SplitFlat(ctx, {Best<BinaryFlatBody<F, T, kX, kY>>(), nullptr});
    return WithState(Best<BinaryNestBody<F, T, kX, kY>>(), nest);
  };
  return DispatchTypes<F::kTypes>(ctx.in(0).dtype, [&](auto t) {
    using T = decltype(t);
    if (!nest.along(0)) return make.template operator()<T, 0, 1>();
    if (!nest.along(1)) return make.template operator()<T, 1, 0>();
    return make.template operator()<T, 1, 1>();
  });
}

// The inputs of a gradient op are X, Y, with kNeedsOut out, and dout; its outputs dX and dY. A
// functor G has kNeedsX, kNeedsY, kNeedsOut and X(x, y, out, d), Y(x, y, out, d), and kPassesOn
// when X gives d as it is.
struct BinaryGradState {
  // Operands X and Y over the shape of out.
  LoopNest<2> nest;
  // The gradient of a side that was broadcast is summed up.
  bool sums_x = false;
  bool sums_y = false;
};

template <typename G, typename T, int kX, int kY>
struct BinaryGradBody {
  template <bool kSideX>
  OPSTEP_INLINE static void Side(KernelContext& ctx, Tensor& grad) {
    const auto& state = ctx.state<BinaryGradState>();
    const int64_t n = state.nest.inner_size();
    const T* x = ctx.in(0).as<T>();
    const T* y = ctx.in(1).as<T>();
    const T* out = ctx.in(2).as<T>();
    const Tensor& dout = ctx.in(G::kNeedsOut ? 3 : 2);
    const T* d = dout.as<T>();
    const bool sums = kSideX ? state.sums_x : state.sums_y;
    if (sums) std::memset(grad.data, 0, grad.bytes());
    const T* end = grad.as<T>() + grad.numel;
    const bool asks = !sums && WorthAsking(grad.as<T>(), d, grad.numel);
    constexpr int kAlong = kSideX ? kX : kY;
    ForEachRun(state.nest, [&](const std::array<int64_t, 2>& at) OPSTEP_INLINE_LAMBDA {
      const auto term = [&](int64_t i) OPSTEP_INLINE_LAMBDA {
        T a{}, b{}, o{};
        if constexpr (G::kNeedsX) a = x[at[0] + i * kX];
        if constexpr (G::kNeedsY) b = y[at[1] + i * kY];
        if constexpr (G::kNeedsOut) o = out[i];
        return kSideX ? G::X(a, b, o, d[i]) : G::Y(a, b, o, d[i]);
      };
      T* to = grad.as<T>() + at[kSideX ? 0 : 1];
      if constexpr (kAlong == 0) {
        *to += SumRun<T>(n, term);
      } else if (sums) {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) to[i] += term(i);
      } else {
        if (asks) AskFor(to, n, std::min<int64_t>(2 * n, end - to));
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) to[i] = term(i);
      }
      if constexpr (G::kNeedsOut) out += n;
      d += n;
    });
  }

  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    // dX last: it may lie in the memory of dout.
    if (ctx.out(1)) Side<false>(ctx, ctx.out(1));
    if constexpr (requires { G::kPassesOn; }) {
      const bool sums = ctx.state<BinaryGradState>().sums_x;
      if (!sums && ctx.out(0).data == ctx.in(2).data) return;
    }
    if (ctx.out(0)) Side<true>(ctx, ctx.out(0));
  }
};

template <typename G>
Kernel PrepareBinaryGrad(const PrepareContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  const Dims& y = ctx.in(1).dims;
  const Dims& domain = ctx.in(G::kNeedsOut ? 3 : 2).dims;
  BinaryGradState state{MakeLoopNest<2>(domain, {x, y}), x.numel() != domain.numel(),
                        y.numel() != domain.numel()};
  return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
    using T = decltype(t);
    if (!state.nest.along(0)) return WithState(Best<BinaryGradBody<G, T, 0, 1>>(), state);
    if (!state.nest.along(1)) return WithState(Best<BinaryGradBody<G, T, 1, 0>>(), state);
    return WithState(Best<BinaryGradBody<G, T, 1, 1>>(), state);
  });
}

// The common definition of arithmetic ops of X and Y; the op adds its gradient, oracle and samples.
template <typename F>
Op BinaryOp(std::string type, std::string doc, std::string result) {
  Op op(std::move(type));
  op.Doc(std::move(doc))
      .In("X", "left side", kNumbers)
      .In("Y", "right side", kNumbers)
      .Out("out", std::move(result), kNumbers)
      .InplaceOf("X")
      .Shape(BinaryShape<>)
      .Prepare(PrepareBinary<F>);
  return op;
}

template <typename G>
Op BinaryGradOp(std::string type, std::string doc) {
  Op op(std::move(type));
  op.Doc(std::move(doc));
  op.In("X", "left side", kFloats);
  if (!G::kNeedsX) op.ShapeOnly();
  op.In("Y", "right side", kFloats);
  if (!G::kNeedsY) op.ShapeOnly();
  if (G::kNeedsOut) op.In("out", "output of the forward op", kFloats);
  op.In("dout", "gradient of out", kFloats)
      .Out("dX", "gradient of X", kFloats)
      .Optional()
      .InplaceOf("dout");
  if constexpr (requires { G::kPassesOn; }) op.Unchanged();
  op.Out("dY", "gradient of Y", kFloats)
      .Optional()
      .Shape(GradsLikeInputs)
      .Prepare(PrepareBinaryGrad<G>);
  return op;
}

}  // namespace opstep
