// log_softmax: the logarithm of softmax along an axis, and its gradient.
#include "ops/grad/terms.h"
#include "ops/lib/axis_rows.h"
#include "ops/lib/dispatch.h"
#include "ops/lib/softmax_rows.h"
#include "ops/op.h"

namespace opstep {
namespace {

template <typename T>
struct Body {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const auto& rows = ctx.state<AxisRows>();
    ForEachRow(rows, [&](int64_t at, int64_t step) OPSTEP_INLINE_LAMBDA {
      const T* x = ctx.in(0).as<T>() + at;
      T* out = ctx.out(0).as<T>() + at;
      const T largest =
          FoldRun<T, MaxCombine>(-std::numeric_limits<T>::infinity(), rows.size,
                                 [&](int64_t i) OPSTEP_INLINE_LAMBDA { return x[i * step]; });
      const T log_sum = Log(SumRun<T>(
          rows.size, [&](int64_t i) OPSTEP_INLINE_LAMBDA { return Exp(x[i * step] - largest); }));
#pragma GCC ivdep
      for (int64_t i = 0; i < rows.size; ++i) out[i * step] = (x[i * step] - largest) - log_sum;
    });
  }
};

template <typename T>
struct GradBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const auto& rows = ctx.state<AxisRows>();
    ForEachRow(rows, [&](int64_t at, int64_t step) OPSTEP_INLINE_LAMBDA {
      const T* out = ctx.in(0).as<T>() + at;
      const T* d = ctx.in(1).as<T>() + at;
      T* dx = ctx.out(0).as<T>() + at;
      const T sum =
          SumRun<T>(rows.size, [&](int64_t i) OPSTEP_INLINE_LAMBDA { return d[i * step]; });
#pragma GCC ivdep
      for (int64_t i = 0; i < rows.size; ++i) {
        dx[i * step] = d[i * step] - Exp(out[i * step]) * sum;
      }
    });
  }
};

template <template <typename> typename B>
Kernel PrepareRows(const PrepareContext& ctx) {
  const AxisRows rows = MakeAxisRows(ctx.in(0).dims, ctx.op().Int("axis"), "X");
  return DispatchFloats(ctx.in(0).dtype,
                        [&](auto t) { return WithState(Best<B<decltype(t)>>(), rows); });
}

const bool kLogSoftmax =
    Op("log_softmax")
        .Doc("The logarithm of softmax along an axis, exact also where softmax rounds to 0.")
        .In("X", "at least one dimension", kFloats)
        .Attr(IntAttr("axis", -1), "the axis, negative from the end")
        .Out("out", "as X, at most 0", kFloats)
        .Shape([](ShapeContext& ctx) {
          NormalizeAxis(ctx.op().Int("axis"), ctx.in(0).dims, "X");
          ctx.set_out(0, ctx.in(0));
        })
        .Prepare(PrepareRows<Body>)
        .Grad([](GradContext& g) { g.EmitGrad("log_softmax_grad", {}, {"out"}, {"out"}, {"X"}); })
        .Oracle(R"(
below = X - X.max(axis=axis, keepdims=True, initial=-np.inf)
below - np.log(np.exp(below).sum(axis=axis, keepdims=True))
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

const bool kLogSoftmaxGrad =
    Op("log_softmax_grad")
        .Doc("Gradient of log_softmax: dout - exp(out) * sum(dout).")
        .In("out", "output of log_softmax", kFloats)
        .In("dout", "gradient of out", kFloats)
        .Attr(IntAttr("axis", -1), "as in the forward op")
        .Out("dX", "gradient of X", kFloats)
        .Shape(OutLikeInput<0>)
        .Prepare(PrepareRows<GradBody>)
        .Grad([](GradContext& g) {
          const Term probs = ExpOf(In(g, "out")), given = OutGradient(g, "dX");
          const int64_t axis = g.op().Int("axis");
          Give(g, "dout", given - SumsAlong(given * probs, {axis}));
          Give(g, "out", -(given * probs * SumsAlong(In(g, "dout"), {axis})));
        })
        .Register();

}  // namespace
}  // namespace opstep
