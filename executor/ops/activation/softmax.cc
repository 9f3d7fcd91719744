// softmax along an axis, on several threads when it is large, and its gradient.
#include "ops/grad/terms.h"
#include "ops/lib/axis_rows.h"
#include "ops/lib/dispatch.h"
#include "ops/lib/parallel_ranges.h"
#include "ops/lib/shape_rules.h"
#include "ops/lib/softmax_rows.h"
#include "ops/op.h"

namespace opstep {
namespace {

// Calls f(offset of the first element, distance between elements) for each row, maybe on several
// threads.
template <typename F>
void ForEachRowInParallel(const AxisRows& rows, const F& f) {
  constexpr int64_t kCost = 8;  // of an element: an exponential
  const int64_t block = rows.size * rows.inner;
  ParallelRanges(rows.outer, kCost * block, [&](int64_t begin, int64_t end) OPSTEP_INLINE_LAMBDA {
    ForEachRow({end - begin, rows.size, rows.inner},
               [&](int64_t at, int64_t step) OPSTEP_INLINE_LAMBDA { f(begin * block + at, step); });
  });
}

template <typename T>
void Run(KernelContext& ctx) {
  const T* x = ctx.in(0).as<T>();
  T* out = ctx.out(0).as<T>();
  const AxisRows& rows = ctx.state<AxisRows>();
  ForEachRowInParallel(rows, [&](int64_t at, int64_t step) OPSTEP_INLINE_LAMBDA {
    SoftmaxRow(x + at, out + at, rows.size, step);
  });
}

template <typename T>
void RunGrad(KernelContext& ctx) {
  const T* out = ctx.in(0).as<T>();
  const T* d = ctx.in(1).as<T>();
  T* dx = ctx.out(0).as<T>();
  const AxisRows& rows = ctx.state<AxisRows>();
  ForEachRowInParallel(rows, [&](int64_t at, int64_t step) OPSTEP_INLINE_LAMBDA {
    const T* y = out + at;
    const T* g = d + at;
    T* to = dx + at;
    const T dot = SumRun<T>(
        rows.size, [&](int64_t i) OPSTEP_INLINE_LAMBDA { return y[i * step] * g[i * step]; });
#pragma GCC ivdep
    for (int64_t i = 0; i < rows.size; ++i) to[i * step] = y[i * step] * (g[i * step] - dot);
  });
}

AxisRows Analyse(const PrepareContext& ctx) {
  return MakeAxisRows(ctx.in(0).dims, ctx.op().Int("axis"), "X");
}

const bool kSoftmax =
    Op("softmax")
        .Doc("Exponentials along an axis, scaled so that their sum is 1.")
        .In("X", "at least one dimension", kFloats)
        .Attr(IntAttr("axis", -1), "the axis, negative from the end")
        .Out("out", "as X, between 0 and 1", kFloats)
        .Shape([](ShapeContext& ctx) {
          NormalizeAxis(ctx.op().Int("axis"), ctx.in(0).dims, "X");
          ctx.set_out(0, ctx.in(0));
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchFloats(ctx.in(0).dtype,
                                [&](auto t) { return WithState(Run<decltype(t)>, Analyse(ctx)); });
        })
        .Grad([](GradContext& g) { g.EmitGrad("softmax_grad", {}, {"out"}, {"out"}, {"X"}); })
        .Oracle(R"(
e = np.exp(X - X.max(axis=axis, keepdims=True, initial=-np.inf))
e / e.sum(axis=axis, keepdims=True)
)")
        .Sample("X=[5,37]{-4,4}")
        .Sample("X=[5,7]{-4,4} axis=0")
        .Sample("X=[2,5,3] axis=1")
        .Sample("X=[1]")
        .Sample("X=[4,1]")
        .Sample("X=[0,3]")
        .Sample("X=[3,0]")
        .Sample("X=[7,9]{-200,200}")
        .Sample("X=float32[9,19]{special}")
        .Register();

const bool kSoftmaxGrad =
    Op("softmax_grad")
        .Doc("Gradient of softmax: out * (dout - sum(out * dout)).")
        .In("out", "output of softmax", kFloats)
        .In("dout", "gradient of out", kFloats)
        .Attr(IntAttr("axis", -1), "as in the forward op")
        .Out("dX", "gradient of X", kFloats)
        .Shape(OutLikeInput<0>)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
            return WithState(RunGrad<decltype(t)>, Analyse(ctx));
          });
        })
        .Grad([](GradContext& g) {
          const Term out = In(g, "out"), dout = In(g, "dout"), given = OutGradient(g, "dX");
          const int64_t axis = g.op().Int("axis");
          Give(g, "dout", Again(g, {{"out", {out}}, {"dout", {given}}}, "dX"));
          Give(g, "out",
               given * (dout - SumsAlong(out * dout, {axis})) -
                   dout * SumsAlong(given * out, {axis}));
        })
        .Register();

}  // namespace

Term SoftmaxGradient(const Term& out, const Term& dout) {
  return dout ? Term("softmax_grad", {{"out", {out}}, {"dout", {dout}}}, "dX") : dout;
}

}  // namespace opstep
