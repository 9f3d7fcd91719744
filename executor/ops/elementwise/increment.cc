// increment: adds a step to each element, in place for counters.
#include "ops/lib/dispatch.h"
#include "ops/lib/numeric.h"
#include "ops/lib/shape_rules.h"
#include "ops/op.h"

namespace opstep {
namespace {

template <typename T>
struct Body {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const T step = ctx.state<T>();
    const T* x = ctx.in(0).as<T>();
    T* out = ctx.out(0).as<T>();
    const int64_t n = ctx.out(0).numel;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = Plus(x[i], step);
  }
};

const bool kIncrement =
    Op("increment")
        .Doc("Adds a step to each element; with out = X it counts in place.")
        .In("X", "any shape", kNumbers)
        .Attr(FloatAttr("step", 1.0), "what to add")
        .Out("out", "X + step", kNumbers)
        .InplaceOf("X")
        .Shape(OutLikeInput<0>)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const double step = ctx.op().Float("step");
          return DispatchNumbers(ctx.in(0).dtype, [&](auto t) {
            using T = decltype(t);
            OPSTEP_CHECK(std::is_floating_point_v<T> ||
                             (std::trunc(step) == step &&
                              std::fabs(step) < (sizeof(T) == 8 ? 0x1p63 : 0x1p31)),
                         "step is ", step, " but X is ", NameOf(ctx.in(0).dtype),
                         ": use a whole number");
            return WithState<T>(Best<Body<T>>(), static_cast<T>(step));
          });
        })
        .Grad([](GradContext& g) { g.Copy(g.OutGrad("out"), g.InGrad("X")); })
        .Oracle("X + np.array(step).astype(X.dtype)")
        .Sample("X=[1]")
        .Sample("X=[3,7] step=-2")
        .Sample("X=float64[] step=0.25")
        .Sample("X=[0]")
        .Register();

}  // namespace
}  // namespace opstep
