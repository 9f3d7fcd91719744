// reduce_sum and reduce_mean, which differ by a factor only, and their gradients.
#include "ops/grad/formula.h"
#include "ops/reduce/reduce.h"

namespace opstep {
namespace {

struct Sum {
  static constexpr Types kTypes = Types::kNumbers;
  static constexpr bool kTakesNothing = true;
  static constexpr bool kFinishes = false;
  template <typename T>
  OPSTEP_INLINE static T Start() {
    return T(0);
  }
  template <typename T>
  OPSTEP_INLINE static T Do(T a, T b) {
    return Plus(a, b);
  }
  template <typename T, typename F>
  OPSTEP_INLINE static T Run(int64_t n, F&& at) {
    return SumRun<T>(n, at);
  }
};

struct Mean : Sum {
  static constexpr Types kTypes = Types::kFloats;
  static constexpr bool kFinishes = true;
  template <typename T>
  OPSTEP_INLINE static T Finish(T sum, int64_t count) {
    return sum / static_cast<T>(count);
  }
};

// Spreads dout over the shape of X.
template <typename T, bool kMean, bool kAlong>
struct SpreadBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const auto& state = ctx.state<ReduceState>();
    const T* dout = ctx.in(1).as<T>();
    T* dx = ctx.out(0).as<T>();
    const T count = kMean ? static_cast<T>(state.count) : T(1);
    const int64_t n = state.nest.inner_size();
    ForEachRun(state.nest, [&](const std::array<int64_t, 1>& at) OPSTEP_INLINE_LAMBDA {
      const T* d = dout + at[0];
      if constexpr (kAlong) {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) dx[i] = d[i] / count;
      } else {
        const T value = *d / count;
        for (int64_t i = 0; i < n; ++i) dx[i] = value;
      }
      dx += n;
    });
  }
};

template <bool kMean>
Kernel PrepareSpread(const PrepareContext& ctx) {
  const ReduceState state = MakeReduceState(ctx.op(), ctx.in(0).dims);
  return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
    using T = decltype(t);
    if (state.nest.along(0)) return WithState(Best<SpreadBody<T, kMean, true>>(), state);
    return WithState(Best<SpreadBody<T, kMean, false>>(), state);
  });
}

template <bool kMean>
bool RegisterGrad(std::string type, std::string doc) {
  return ReduceGradOp(std::move(type), std::move(doc))
      .In("X", "input of the forward op", kFloats)
      .ShapeOnly()
      .In("dout", "gradient of out", kFloats)
      .Out("dX", "gradient of X", kFloats)
      .Prepare(PrepareSpread<kMean>)
      .Grad([](GradContext& g) {
        const Term reduced = ForwardOp(g, {{"X", {OutGradient(g, "dX")}}}, "out");
        Give(g, "dout", ShapedAs(reduced, In(g, "dout")));
      })
      .Register();
}

const bool kReduceSum =
    ReduceOp("reduce_sum", "The sum of the elements along axes.", "the sums", kNumbers)
        .Prepare(PrepareReduce<Sum>)
        .Grad([](GradContext& g) { g.EmitGrad("reduce_sum_grad", {"X"}, {}, {"out"}, {"X"}); })
        .Oracle("X.sum(axis=tuple(axes) or None, keepdims=keepdims).astype(X.dtype)")
        .Sample("X=[3,7]")
        .Sample("X=[4,33] axes=[1] keepdims=False")
        .Sample("X=[33,5] axes=[0]")
        .Sample("X=[2,3,4,5] axes=[0,2] keepdims=False")
        .Sample("X=[2,3,4,5] axes=[-1,1]")
        .Sample("X=[3001] axes=[] keepdims=False")
        .Sample("X=[] keepdims=False")
        .Sample("X=[0,3] axes=[0]")
        .Sample("X=[0,3] axes=[1]")
        .Sample("X=[1,1] axes=[0]")
        .Register();

const bool kReduceMean =
    ReduceOp("reduce_mean", "The mean of the elements along axes.", "the means", kFloats)
        .Prepare(PrepareReduce<Mean>)
        .Grad([](GradContext& g) { g.EmitGrad("reduce_mean_grad", {"X"}, {}, {"out"}, {"X"}); })
        .Oracle("X.mean(axis=tuple(axes) or None, keepdims=keepdims)")
        .Sample("X=[3,7]")
        .Sample("X=[17,1] keepdims=False")
        .Sample("X=[4,33] axes=[-1] keepdims=False")
        .Sample("X=[2,3,4] axes=[0,2]")
        .Sample("X=[1]")
        .Sample("X=[0,2] axes=[1]")
        .Sample("X=[0,2] axes=[0]")
        .Register();

const bool kReduceSumGrad = RegisterGrad<false>(
    "reduce_sum_grad", "Gradient of reduce_sum: each element of X gets its sum's dout.");
const bool kReduceMeanGrad = RegisterGrad<true>(
    "reduce_mean_grad", "Gradient of reduce_mean: each element of X gets its share of dout.");

}  // namespace

Term SumsAlong(const Term& x, std::vector<int64_t> axes) {
  if (!x) return x;
  return Term("reduce_sum", {{"X", {x}}}, "out",
              {IntsAttr("axes", std::move(axes)), BoolAttr("keepdims", true)});
}

Term SpreadBack(GradContext& g, const Term& sums, const Term& x) {
  return Term("reduce_sum_grad", {{"X", {x}}, {"dout", {sums}}}, "dX",
              {IntsAttr("axes", g.op().Ints("axes"))});
}

}  // namespace opstep
