#include "ops/dispatch.h"
#include "ops/op.h"
#include "ops/shape_rules.h"
#include "ops/softmax_rows.h"

namespace opstep {
namespace {

// Each row has `size` elements that lie `inner` apart.
struct State {
  int64_t outer = 1, size = 1, inner = 1;
};

State Analyse(const PrepareContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  const int axis = NormalizeAxis(ctx.op().Int("axis"), x, "X");
  State s;
  for (int i = 0; i < axis; ++i) s.outer *= x[i];
  s.size = x[axis];
  for (int i = axis + 1; i < x.rank(); ++i) s.inner *= x[i];
  return s;
}

template <typename F>
OPSTEP_INLINE void ForEachRow(const State& s, F&& f) {
  if (s.size == 0) return;
  if (s.inner == 1) {
    for (int64_t o = 0; o < s.outer; ++o) f(o * s.size, 1);
  } else {
    for (int64_t o = 0; o < s.outer; ++o) {
      for (int64_t i = 0; i < s.inner; ++i) f(o * s.size * s.inner + i, s.inner);
    }
  }
}

template <typename T>
struct Body {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const T* x = ctx.in(0).as<T>();
    T* out = ctx.out(0).as<T>();
    const State& s = ctx.state<State>();
    ForEachRow(s, [&](int64_t at, int64_t step)
                      OPSTEP_INLINE_LAMBDA { SoftmaxRow(x + at, out + at, s.size, step); });
  }
};

template <typename T>
struct GradBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const T* out = ctx.in(0).as<T>();
    const T* d = ctx.in(1).as<T>();
    T* dx = ctx.out(0).as<T>();
    const State& s = ctx.state<State>();
    ForEachRow(s, [&](int64_t at, int64_t step) OPSTEP_INLINE_LAMBDA {
      const T* y = out + at;
      const T* g = d + at;
      T* to = dx + at;
      const T dot = SumRun<T>(
          s.size, [&](int64_t i) OPSTEP_INLINE_LAMBDA { return y[i * step] * g[i * step]; });
#pragma GCC ivdep
      for (int64_t i = 0; i < s.size; ++i) to[i * step] = y[i * step] * (g[i * step] - dot);
    });
  }
};

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
          return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
            return WithState(Best<Body<decltype(t)>>(), Analyse(ctx));
          });
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

const bool kSoftmaxGrad = Op("softmax_grad")
                              .Doc("Gradient of softmax: out * (dout - sum(out * dout)).")
                              .In("out", "output of softmax", kFloats)
                              .In("dout", "gradient of out", kFloats)
                              .Attr(IntAttr("axis", -1), "as in the forward op")
                              .Out("dX", "gradient of X", kFloats)
                              .Shape(OutLikeInput<0>)
                              .Prepare([](const PrepareContext& ctx) -> Kernel {
                                return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
                                  return WithState(Best<GradBody<decltype(t)>>(), Analyse(ctx));
                                });
                              })
                              .Register();

}  // namespace
}  // namespace opstep
