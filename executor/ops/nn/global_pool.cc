// global_average_pool and global_max_pool: [N, C, ...] to [N, C, 1, ...], and their gradients.
#include "ops/grad/terms.h"
#include "ops/lib/dispatch.h"
#include "ops/lib/numeric.h"
#include "ops/lib/parallel_ranges.h"
#include "ops/lib/shape_rules.h"
#include "ops/lib/softmax_rows.h"

namespace opstep {
namespace {

struct State {
  int64_t planes = 0;
  int64_t size = 0;
};

State Analyse(const PrepareContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  State s{x[0] * x[1], 1};
  for (int i = 2; i < x.rank(); ++i) s.size *= x[i];
  OPSTEP_CHECK(s.size > 0 || s.planes == 0, "X is ", x.ToString(), ": its channels are empty");
  return s;
}

void Shape(ShapeContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  OPSTEP_CHECK(x.rank() >= 2, "X is ", x.ToString(), ": it must have a batch and channels");
  Dims out{x[0], x[1]};
  for (int i = 2; i < x.rank(); ++i) out.push_back(1);
  ctx.set_out(0, {ctx.in(0).dtype, out});
}

// Calls f(plane) for each, maybe on several threads.
template <typename F>
void ForEachPlane(const State& s, const F& f) {
  ParallelRanges(s.planes, s.size, [&](int64_t begin, int64_t end) OPSTEP_INLINE_LAMBDA {
    for (int64_t plane = begin; plane < end; ++plane) f(plane);
  });
}

template <typename T>
void RunAverage(KernelContext& ctx) {
  const State& s = ctx.state<State>();
  const T* x = ctx.in(0).as<T>();
  T* out = ctx.out(0).as<T>();
  ForEachPlane(s, [&](int64_t plane) OPSTEP_INLINE_LAMBDA {
    const T* from = x + plane * s.size;
    const T sum = SumRun<T>(s.size, [&](int64_t i) OPSTEP_INLINE_LAMBDA { return from[i]; });
    out[plane] = sum / static_cast<T>(s.size);
  });
}

template <typename T>
void RunAverageGrad(KernelContext& ctx) {
  const State& s = ctx.state<State>();
  const T* dout = ctx.in(1).as<T>();
  T* dx = ctx.out(0).as<T>();
  ForEachPlane(s, [&](int64_t plane) OPSTEP_INLINE_LAMBDA {
    std::fill_n(dx + plane * s.size, s.size, dout[plane] / static_cast<T>(s.size));
  });
}

template <typename T>
void RunMax(KernelContext& ctx) {
  const State& s = ctx.state<State>();
  const T* x = ctx.in(0).as<T>();
  T* out = ctx.out(0).as<T>();
  ForEachPlane(s, [&](int64_t plane) OPSTEP_INLINE_LAMBDA {
    const T* from = x + plane * s.size;
    out[plane] = FoldRun<T, MaxCombine>(-std::numeric_limits<T>::infinity(), s.size,
                                        [&](int64_t i) OPSTEP_INLINE_LAMBDA { return from[i]; });
  });
}

template <typename T>
void RunMaxGrad(KernelContext& ctx) {
  const State& s = ctx.state<State>();
  const T* x = ctx.in(0).as<T>();
  const T* out = ctx.in(1).as<T>();
  const T* dout = ctx.in(2).as<T>();
  T* dx = ctx.out(0).as<T>();
  ForEachPlane(s, [&](int64_t plane) OPSTEP_INLINE_LAMBDA {
    const T* from = x + plane * s.size;
    T* to = dx + plane * s.size;
    std::fill_n(to, s.size, T(0));
    const T largest = out[plane];
    for (int64_t i = 0; i < s.size; ++i) {
      const bool is_nan = from[i] != from[i] && largest != largest;
      if (from[i] != largest && !is_nan) continue;
      to[i] = dout[plane];
      break;
    }
  });
}

template <template <typename> class Body>
Kernel Choose(const PrepareContext& ctx) {
  return DispatchFloats(ctx.in(0).dtype,
                        [&](auto t) { return WithState(Body<decltype(t)>::Run, Analyse(ctx)); });
}

template <typename T>
struct Average {
  static constexpr KernelFn Run = RunAverage<T>;
};
template <typename T>
struct AverageGrad {
  static constexpr KernelFn Run = RunAverageGrad<T>;
};
template <typename T>
struct Max {
  static constexpr KernelFn Run = RunMax<T>;
};
template <typename T>
struct MaxGrad {
  static constexpr KernelFn Run = RunMaxGrad<T>;
};

const bool kAverage = Op("global_average_pool")
                          .Doc("The mean of each channel of each image.")
                          .In("X", "[N, C, ...]", kFloats)
                          .Out("out", "[N, C, 1, ...]", kFloats)
                          .Shape(Shape)
                          .Prepare(Choose<Average>)
                          .Grad([](GradContext& g) {
                            g.EmitGrad("global_average_pool_grad", {"X"}, {}, {"out"}, {"X"});
                          })
                          .Oracle(
                              "X.mean(axis=tuple(range(2, X.ndim)), keepdims=True, dtype='float64')"
                              ".astype(X.dtype) if X.ndim > 2 else X")
                          .Sample("X=[2,3,5,7]")
                          .Sample("X=[3,2,33]")
                          .Sample("X=[1,2,2,3,4]")
                          .Sample("X=[3,5]")
                          .Sample("X=[0,3,4,4]")
                          .Sample("X=[2,0,4]")
                          .Register();

const bool kAverageGrad = Op("global_average_pool_grad")
                              .Doc("Gradient of global_average_pool: each element's share of dout.")
                              .In("X", "input of the forward op", kFloats)
                              .ShapeOnly()
                              .In("dout", "gradient of out", kFloats)
                              .Out("dX", "gradient of X", kFloats)
                              .Shape(OutLikeInput<0>)
                              .Prepare(Choose<AverageGrad>)
                              .Grad(MovedGradient)
                              .Register();

const bool kMax = Op("global_max_pool")
                      .Doc("The largest element of each channel of each image.")
                      .In("X", "[N, C, ...]", kFloats)
                      .Out("out", "[N, C, 1, ...]", kFloats)
                      .Shape(Shape)
                      .Prepare(Choose<Max>)
                      .Grad([](GradContext& g) {
                        g.EmitGrad("global_max_pool_grad", {"X"}, {"out"}, {"out"}, {"X"});
                      })
                      .Oracle("X.max(axis=tuple(range(2, X.ndim)), keepdims=True)")
                      .Sample("X=[2,3,5,7]")
                      .Sample("X=[3,2,33]")
                      .Sample("X=[1,2,2,3,4]")
                      .Sample("X=[0,3,4,4]")
                      .Sample("X=[2,2,13]{special}")
                      .Sample("X=[1,13,1]{special}")
                      .Register();

const bool kMaxGrad = Op("global_max_pool_grad")
                          .Doc("Gradient of global_max_pool: dout goes to the first largest one.")
                          .In("X", "as in the forward op", kFloats)
                          .In("out", "as computed by the forward op", kFloats)
                          .In("dout", "gradient of out", kFloats)
                          .Out("dX", "gradient of X", kFloats)
                          .Shape(OutLikeInput<0>)
                          .Prepare(Choose<MaxGrad>)
                          .Register();

}  // namespace
}  // namespace opstep
