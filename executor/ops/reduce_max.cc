#include "ops/reduce.h"

namespace opstep {
namespace {

// The largest and the smallest: they differ in one sign.

struct Max {
  static constexpr Types kTypes = Types::kNumbers;
  static constexpr bool kTakesNothing = false;
  static constexpr bool kFinishes = false;
  template <typename T>
  OPSTEP_INLINE static T Start() {
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? -Limits::infinity() : Limits::min();
  }
  template <typename T>
  OPSTEP_INLINE static T Do(T a, T b) {
    return MaxOf(a, b);
  }
  template <typename T, typename F>
  OPSTEP_INLINE static T Run(int64_t n, F&& at) {
    return FoldRun<T, Max>(Start<T>(), n, at);
  }
};

struct Min {
  static constexpr Types kTypes = Types::kNumbers;
  static constexpr bool kTakesNothing = false;
  static constexpr bool kFinishes = false;
  template <typename T>
  OPSTEP_INLINE static T Start() {
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
  template <typename T>
  OPSTEP_INLINE static T Do(T a, T b) {
    return MinOf(a, b);
  }
  template <typename T, typename F>
  OPSTEP_INLINE static T Run(int64_t n, F&& at) {
    return FoldRun<T, Min>(Start<T>(), n, at);
  }
};

// Loops over the output, and for each of its elements over what was reduced to it.
struct GradState {
  LoopNest<1> outer;  // operand: X, over the shape of out
  LoopNest<1> inner;  // operand: X, over the reduced axes
};

// A nest over the axes of X that are in `axes`, or over the others.
LoopNest<1> NestOver(const Dims& x, const AxisSet& axes, bool in_axes) {
  LoopNest<1> nest;
  int used = 0;
  int64_t stride = 1;
  for (int d = x.rank() - 1; d >= 0; --d) {
    if (axes[d] == in_axes) {
      nest.size[used] = x[d];
      nest.stride[used++][0] = stride;
      nest.empty |= x[d] == 0;
    }
    stride *= x[d];
  }
  if (used == 0) nest.size[used++] = 1;
  nest.rank = used;
  std::reverse(nest.size.begin(), nest.size.begin() + used);
  std::reverse(nest.stride.begin(), nest.stride.begin() + used);
  return nest;
}

template <typename F>
OPSTEP_INLINE void ForEachElement(const LoopNest<1>& nest, F&& f) {
  const int64_t step = nest.stride[nest.rank - 1][0];
  ForEachRun(nest, [&](const std::array<int64_t, 1>& at) OPSTEP_INLINE_LAMBDA {
    for (int64_t i = 0; i < nest.inner_size(); ++i) f(at[0] + i * step);
  });
}

template <typename T>
void RunGrad(KernelContext& ctx) {
  const GradState& state = ctx.state<GradState>();
  const T* x = ctx.in(0).as<T>();
  const T* out = ctx.in(1).as<T>();
  const T* d = ctx.in(2).as<T>();
  T* dx = ctx.out(0).as<T>();
  ForEachElement(state.outer, [&](int64_t base) {
    const T chosen = *out++;
    const auto is_chosen = [&](T v) { return v == chosen || (v != v && chosen != chosen); };
    int64_t ties = 0;
    ForEachElement(state.inner, [&](int64_t i) { ties += is_chosen(x[base + i]); });
    const T share = *d++ / static_cast<T>(ties);
    ForEachElement(state.inner,
                   [&](int64_t i) { dx[base + i] = is_chosen(x[base + i]) ? share : T(0); });
  });
}

Kernel PrepareGrad(const PrepareContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  const AxisSet axes = ReducedAxes(ctx.op(), x);
  return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
    return WithState(RunGrad<decltype(t)>,
                     GradState{NestOver(x, axes, false), NestOver(x, axes, true)});
  });
}

bool RegisterGrad(std::string type, std::string doc) {
  return ReduceGradOp(std::move(type), std::move(doc))
      .In("X", "input of the forward op", kFloats)
      .In("out", "output of the forward op", kFloats)
      .In("dout", "gradient of out", kFloats)
      .Out("dX", "gradient of X", kFloats)
      .Prepare(PrepareGrad)
      .Register();
}

Op WithSamples(Op op) {
  op.Sample("X=[3,7]")
      .Sample("X=[4,33] axes=[1] keepdims=False")
      .Sample("X=[33,5] axes=[0]")
      .Sample("X=[2,3,4,5] axes=[0,2] keepdims=False")
      .Sample("X=[2,3,4,5] axes=[-1,1]")
      .Sample("X=[] keepdims=False")
      .Sample("X=[1,1] axes=[0]")
      .Sample("X=[0,3] axes=[1]")
      .Sample("X=float32[9,17]{special} axes=[0]")
      .Sample("X=float32[17,37]{special} axes=[1]");
  return op;
}

const bool kReduceMax =
    WithSamples(ReduceOp("reduce_max", "The largest element along axes; NaN when there is one.",
                         "the largest elements", kNumbers))
        .Prepare(PrepareReduce<Max>)
        .Grad([](GradContext& g) { g.EmitGrad("reduce_max_grad", {"X"}, {"out"}, {"out"}, {"X"}); })
        .Oracle("X.max(axis=tuple(axes) or None, keepdims=keepdims)")
        .Register();

const bool kReduceMin =
    WithSamples(ReduceOp("reduce_min", "The smallest element along axes; NaN when there is one.",
                         "the smallest elements", kNumbers))
        .Prepare(PrepareReduce<Min>)
        .Grad([](GradContext& g) { g.EmitGrad("reduce_min_grad", {"X"}, {"out"}, {"out"}, {"X"}); })
        .Oracle("X.min(axis=tuple(axes) or None, keepdims=keepdims)")
        .Register();

const bool kReduceMaxGrad =
    RegisterGrad("reduce_max_grad",
                 "Gradient of reduce_max: dout goes to the largest elements in equal shares.");
const bool kReduceMinGrad =
    RegisterGrad("reduce_min_grad",
                 "Gradient of reduce_min: dout goes to the smallest elements in equal shares.");

}  // namespace
}  // namespace opstep
