// Reductions over `axes` (none: over all), with `keepdims`: loops, shape rule and schema.
#pragma once

#include <bitset>

#include "ops/lib/dispatch.h"
#include "ops/lib/loop_nest.h"
#include "ops/lib/numeric.h"
#include "ops/lib/shape_rules.h"
#include "ops/op.h"

namespace opstep {

using AxisSet = std::bitset<Dims::kMaxRank>;

inline AxisSet ReducedAxes(const OpView& op, const Dims& x) {
  AxisSet axes;
  for (int64_t axis : op.Ints("axes")) {
    const int a = NormalizeAxis(axis, x, "X");
    OPSTEP_CHECK(!axes[a], "axes names axis ", axis, " twice");
    axes.set(a);
  }
  if (axes.none()) axes.set();
  return axes;
}

// X with size 1 in the reduced axes.
inline Dims KeptDims(const Dims& x, const AxisSet& axes) {
  Dims kept = x;
  for (int i = 0; i < x.rank(); ++i) {
    if (axes[i]) kept[i] = 1;
  }
  return kept;
}

inline void ReduceShape(ShapeContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  const AxisSet axes = ReducedAxes(ctx.op(), x);
  const bool keep = ctx.op().Bool("keepdims");
  Dims out;
  for (int i = 0; i < x.rank(); ++i) {
    if (!axes[i]) out.push_back(x[i]);
    if (axes[i] && keep) out.push_back(1);
  }
  ctx.set_out(0, {ctx.in(0).dtype, out});
}

struct ReduceState {
  // Operand: the output over the shape of X.
  LoopNest<1> nest;
  // The number of elements that are reduced to one.
  int64_t count = 0;
};

inline ReduceState MakeReduceState(const OpView& op, const Dims& x) {
  const AxisSet axes = ReducedAxes(op, x);
  ReduceState state{MakeLoopNest<1>(x, {KeptDims(x, axes)}), 1};
  for (int i = 0; i < x.rank(); ++i) {
    if (axes[i]) state.count *= x[i];
  }
  return state;
}

// R has Start<T>(), Do(a, b), Run<T>(n, at) for a run, and Finish(value, count).
template <typename R, typename T, bool kAlong>
struct ReduceBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const auto& state = ctx.state<ReduceState>();
    const T* x = ctx.in(0).as<T>();
    Tensor& out = ctx.out(0);
    T* to = out.as<T>();
    for (int64_t i = 0; i < out.numel; ++i) to[i] = R::template Start<T>();
    const int64_t n = state.nest.inner_size();
    ForEachRun(state.nest, [&](const std::array<int64_t, 1>& at) OPSTEP_INLINE_LAMBDA {
      T* o = to + at[0];
      if constexpr (kAlong) {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) o[i] = R::Do(o[i], x[i]);
      } else {
        *o = R::Do(*o, R::template Run<T>(n, [&](int64_t i) OPSTEP_INLINE_LAMBDA { return x[i]; }));
      }
      x += n;
    });
    if constexpr (R::kFinishes) {
      for (int64_t i = 0; i < out.numel; ++i) to[i] = R::Finish(to[i], state.count);
    }
  }
};

template <typename R>
Kernel PrepareReduce(const PrepareContext& ctx) {
  const ReduceState state = MakeReduceState(ctx.op(), ctx.in(0).dims);
  OPSTEP_CHECK(R::kTakesNothing || state.count > 0 || ctx.out(0).dims.numel() == 0, "X is ",
               ctx.in(0).dims.ToString(), ": no elements are left to choose from");
  return DispatchTypes<R::kTypes>(ctx.in(0).dtype, [&](auto t) {
    using T = decltype(t);
    if (state.nest.along(0)) return WithState(Best<ReduceBody<R, T, true>>(), state);
    return WithState(Best<ReduceBody<R, T, false>>(), state);
  });
}

// Shared by all reductions.
inline Op ReduceOp(std::string type, std::string doc, std::string out_doc, DTypeSet dtypes) {
  Op op(std::move(type));
  op.Doc(std::move(doc))
      .In("X", "any shape", dtypes)
      .Out("out", std::move(out_doc), dtypes)
      .Attr(IntsAttr("axes", {}), "the axes to reduce, negative ones from the end; none means all")
      .Attr(BoolAttr("keepdims", true), "keep the reduced axes with size 1")
      .Shape(ReduceShape);
  return op;
}

inline Op ReduceGradOp(std::string type, std::string doc) {
  Op op(std::move(type));
  op.Doc(std::move(doc)).Attr(IntsAttr("axes", {}), "as in the forward op").Shape(OutLikeInput<0>);
  return op;
}

}  // namespace opstep
