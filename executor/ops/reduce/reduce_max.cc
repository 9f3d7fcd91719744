// reduce_max and reduce_min, which differ in one sign, and their gradients.
#include "ops/grad/terms.h"
#include "ops/reduce/reduced_elements.h"

namespace opstep {
namespace {

// Many lanes for a long run, because each has to wait for its own last comparison.
template <typename R, typename T, typename F>
OPSTEP_INLINE T FoldLong(int64_t n, F&& at) {
  constexpr int kLanes = 64;
  T result = R::template Start<T>();
  int64_t done = 0;
  if (n >= 4 * kLanes) {
    T lanes[kLanes];
    for (int k = 0; k < kLanes; ++k) lanes[k] = result;
    for (; done + kLanes <= n; done += kLanes) {
      for (int k = 0; k < kLanes; ++k) lanes[k] = R::Do(lanes[k], at(done + k));
    }
    for (int k = 0; k < kLanes; ++k) result = R::Do(result, lanes[k]);
  }
  return FoldRun<T, R>(result, n - done,
                       [&](int64_t i) OPSTEP_INLINE_LAMBDA { return at(done + i); });
}

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
    return FoldLong<Max, T>(n, at);
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
    return FoldLong<Min, T>(n, at);
  }
};

template <typename T>
void RunGrad(KernelContext& ctx) {
  const auto& state = ctx.state<ReducedElements>();
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
  return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
    return WithState(RunGrad<decltype(t)>, MakeReducedElements(ctx.op(), ctx.in(0).dims));
  });
}

bool RegisterGrad(std::string type, std::string doc) {
  return ReduceGradOp(std::move(type), std::move(doc))
      .In("X", "input of the forward op", kFloats)
      .In("out", "output of the forward op", kFloats)
      .In("dout", "gradient of out", kFloats)
      .Out("dX", "gradient of X", kFloats)
      .Prepare(PrepareGrad)
      .Grad([](GradContext& g) {
        const Term x = In(g, "X"), out = In(g, "out"), dout = In(g, "dout");
        // The shares, which do not depend on dout.
        const Term shares =
            Again(g, {{"X", {x}}, {"out", {out}}, {"dout", {Filled(dout, 1)}}}, "dX");
        Give(g, "dout",
             ShapedAs(SumsAlong(OutGradient(g, "dX") * shares, g.op().Ints("axes")), dout));
      })
      .Register();
}

Op WithSamples(Op op) {
  op.Sample("X=[3,7]")
      .Sample("X=[4,33] axes=[1] keepdims=False")
      .Sample("X=[33,5] axes=[0]")
      .Sample("X=[2,3,4,5] axes=[0,2] keepdims=False")
      .Sample("X=[2,3,4,5] axes=[-1,1]")
      .Sample("X=[9,331] keepdims=False")
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
