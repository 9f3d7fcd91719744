// sgd: one step of gradient descent with weight decay.
#include "ops/lib/dispatch.h"
#include "ops/lib/simd.h"
#include "ops/lib/split_flat.h"
#include "ops/op.h"
#include "ops/optimizer/optimizer_rules.h"

namespace opstep {
namespace {

template <typename T>
struct Body {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const T* param = ctx.in(0).as<T>();
    const T* grad = ctx.in(1).as<T>();
    const T rate = *ctx.in(2).as<T>();
    T* out = ctx.out(0).as<T>();
    const int64_t n = ctx.out(0).numel;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = param[i] - rate * grad[i];
  }
};

template <typename T>
struct DecayBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const T decay = ctx.state<T>();
    const T* param = ctx.in(0).as<T>();
    const T* grad = ctx.in(1).as<T>();
    const T rate = *ctx.in(2).as<T>();
    T* out = ctx.out(0).as<T>();
    const int64_t n = ctx.out(0).numel;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = param[i] - rate * (grad[i] + decay * param[i]);
  }
};

const bool kSgd =
    Op("sgd")
        .Doc("One step of gradient descent: param - lr * (grad + weight_decay * param).")
        .In("param", "a parameter", kFloats)
        .In("grad", "its gradient", kFloats)
        .In("lr", "learning rate, one element", kFloats)
        .Attr(FloatAttr("weight_decay", 0.0), "factor of the L2 penalty")
        .Out("param_out", "the parameter after the step", kFloats)
        .InplaceOf("param")
        .Shape([](ShapeContext& ctx) { OptimizerShape(ctx, 1, {"grad"}); })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const double decay = ctx.op().Float("weight_decay");
          return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
            using T = decltype(t);
            if (decay == 0) return SplitFlat(ctx, {Best<Body<T>>(), nullptr});
            return SplitFlat(ctx, WithState<T>(Best<DecayBody<T>>(), static_cast<T>(decay)));
          });
        })
        .Oracle("param - lr * (grad + param.dtype.type(weight_decay) * param)")
        .Sample("param=[5,7] grad=[5,7] lr=[1]")
        .Sample("param=[33] grad=[33] lr=[]")
        .Sample("param=[19] grad=[19] lr=[] weight_decay=0.3")
        .Sample("param=[0,3] grad=[0,3] lr=[1]")
        .Register();

}  // namespace
}  // namespace opstep
