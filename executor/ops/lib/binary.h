// Kernels, shape rules and schemas of elementwise ops of X and Y with broadcasting.
#pragma once

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

// kX, kY: 1 when the operand advances within the row, 0 when it stays.
template <typename F, typename T, int kX, int kY, typename R>
OPSTEP_INLINE void BinaryRow(const T* x, const T* y, R* out, int64_t n) {
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

// Rows of `size` elements, one after the other in `out`. The steps lead from row to row, in
// elements.
struct BinaryRows {
  const void* x;
  const void* y;
  void* out;
  int64_t size;
  int64_t rows;
  int64_t step_x;
  int64_t step_y;
};
using BinaryRowsFn = void (*)(const BinaryRows&);

// Only this is compiled for each functor and dtype; the loops around it are in binary.cc.
template <typename F, typename T, int kX, int kY>
struct BinaryRowsBody {
  OPSTEP_INLINE static void Run(const BinaryRows& to) {
    using R = decltype(F::Do(T{}, T{}));
    const T* x = static_cast<const T*>(to.x);
    const T* y = static_cast<const T*>(to.y);
    R* out = static_cast<R*>(to.out);
    for (int64_t row = to.rows; row > 0; --row) {
      BinaryRow<F, T, kX, kY>(x, y, out, to.size);
      x += to.step_x;
      y += to.step_y;
      out += to.size;
    }
  }
};

// A small output, and equal shapes, or one side has a single element: the kernel itself is the
// loop, because calling another function would take longer than the loop.
template <typename F, typename T, int kX, int kY>
struct BinarySmallBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    using R = decltype(F::Do(T{}, T{}));
    const int64_t n = ctx.out(0).numel;
    if (n == 0) return;
    BinaryRow<F, T, kX, kY>(ctx.in(0).as<T>(), ctx.in(1).as<T>(), ctx.out(0).as<R>(), n);
  }
};

// A kernel for other operands. The sizes are bytes of an element of X or Y, and of out.
Kernel BinaryKernel(const PrepareContext& ctx, const LoopNest<2>& nest, BinaryRowsFn run,
                    int64_t size_in, int64_t size_out);

template <typename F>
Kernel PrepareBinary(const PrepareContext& ctx) {
  const auto nest = MakeLoopNest<2>(ctx.out(0).dims, {ctx.in(0).dims, ctx.in(1).dims});
  const auto make = [&]<typename T, int kX, int kY>() -> Kernel {
    constexpr int64_t kSize = sizeof(F::Do(T{}, T{}));
    if (nest.rank == 1 && ctx.out(0).dims.numel() * kSize < kWorthAsking) {
      return {Best<BinarySmallBody<F, T, kX, kY>>(), nullptr};
    }
    return BinaryKernel(ctx, nest, Best<BinaryRowsBody<F, T, kX, kY>>(), sizeof(T), kSize);
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

// A row of a gradient: `to` is that of one side, the others are inputs of the gradient op.
struct BinaryGradRow {
  const void* x;
  const void* y;
  const void* out;
  const void* d;
  void* to;
  int64_t size;
};
using BinaryGradRowFn = void (*)(const BinaryGradRow&);

// kX, kY: 1 when the operand advances within the row, 0 when it stays.
template <typename G, typename T, int kX, int kY, bool kSideX, bool kSums>
struct BinaryGradRowBody {
  OPSTEP_INLINE static void Run(const BinaryGradRow& row) {
    const T* x = static_cast<const T*>(row.x);
    const T* y = static_cast<const T*>(row.y);
    const T* out = static_cast<const T*>(row.out);
    const T* d = static_cast<const T*>(row.d);
    T* to = static_cast<T*>(row.to);
    const int64_t n = row.size;
    const auto term = [&](int64_t i) OPSTEP_INLINE_LAMBDA {
      T a{}, b{}, o{};
      if constexpr (G::kNeedsX) a = x[i * kX];
      if constexpr (G::kNeedsY) b = y[i * kY];
      if constexpr (G::kNeedsOut) o = out[i];
      return kSideX ? G::X(a, b, o, d[i]) : G::Y(a, b, o, d[i]);
    };
    if constexpr ((kSideX ? kX : kY) == 0) {
      *to += SumRun<T>(n, term);
    } else if constexpr (kSums) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) to[i] += term(i);
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) to[i] = term(i);
    }
  }
};

struct BinaryGradState {
  struct Side {
    BinaryGradRowFn run;
    // The gradient of a side that was broadcast is summed up.
    bool sums;
  };
  // Operands X and Y over the shape of out.
  LoopNest<2> nest;
  Side x, y;
  // Bytes of an element.
  int64_t size;
  bool needs_out, passes_on;
};

// The kernel with a BinaryGradState.
void RunBinaryGrad(KernelContext& ctx);

template <typename G, typename T, int kX, int kY>
void ChooseBinaryGrad(BinaryGradState& state) {
  // A side that stays within a row is always summed up.
  state.x.run = state.x.sums ? Best<BinaryGradRowBody<G, T, kX, kY, true, true>>()
                             : Best<BinaryGradRowBody<G, T, kX, kY, true, kX == 0>>();
  state.y.run = state.y.sums ? Best<BinaryGradRowBody<G, T, kX, kY, false, true>>()
                             : Best<BinaryGradRowBody<G, T, kX, kY, false, kY == 0>>();
}

template <typename G>
Kernel PrepareBinaryGrad(const PrepareContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  const Dims& y = ctx.in(1).dims;
  const Dims& domain = ctx.in(G::kNeedsOut ? 3 : 2).dims;
  BinaryGradState state{MakeLoopNest<2>(domain, {x, y}), {nullptr, x.numel() != domain.numel()},
                        {nullptr, y.numel() != domain.numel()},
                        static_cast<int64_t>(SizeOf(ctx.in(0).dtype)), G::kNeedsOut,
                        requires {G::kPassesOn;
}
};  // namespace opstep
return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
  using T = decltype(t);
  if (!state.nest.along(0)) {
    ChooseBinaryGrad<G, T, 0, 1>(state);
  } else if (!state.nest.along(1)) {
    ChooseBinaryGrad<G, T, 1, 0>(state);
  } else {
    ChooseBinaryGrad<G, T, 1, 1>(state);
  }
  return WithState(RunBinaryGrad, state);
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
