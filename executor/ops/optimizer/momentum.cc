// momentum: one step of gradient descent with momentum, or with Nesterov's.
#include "ops/lib/dispatch.h"
#include "ops/lib/simd.h"
#include "ops/lib/split_flat.h"
#include "ops/op.h"
#include "ops/optimizer/optimizer_rules.h"

namespace opstep {
namespace {

struct Options {
  double mu, decay;
};

template <typename T, bool kNesterov>
struct Body {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const T mu = static_cast<T>(ctx.state<Options>().mu);
    const T decay = static_cast<T>(ctx.state<Options>().decay);
    const T* param = ctx.in(0).as<T>();
    const T* grad = ctx.in(1).as<T>();
    const T* velocity = ctx.in(2).as<T>();
    const T rate = *ctx.in(3).as<T>();
    T* param_out = ctx.out(0).as<T>();
    T* velocity_out = ctx.out(1).as<T>();
    const int64_t n = ctx.out(0).numel;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const T g = grad[i] + decay * param[i];
      const T v = mu * velocity[i] + g;
      velocity_out[i] = v;
      param_out[i] = param[i] - rate * (kNesterov ? g + mu * v : v);
    }
  }
};

const bool kMomentum =
    Op("momentum")
        .Doc(
            "One step of gradient descent with momentum: g = grad + weight_decay * param, "
            "velocity = mu * velocity + g, param -= lr * velocity, or with Nesterov's momentum "
            "param -= lr * (g + mu * velocity).")
        .In("param", "a parameter", kFloats)
        .In("grad", "its gradient", kFloats)
        .In("velocity", "sum of past gradients, as param", kFloats)
        .In("lr", "learning rate, one element", kFloats)
        .Attr(FloatAttr("mu", 0.9), "what is left of the velocity after a step")
        .Attr(BoolAttr("use_nesterov", false), "take the gradient as it will be after the step")
        .Attr(FloatAttr("weight_decay", 0.0), "factor of the L2 penalty")
        .Out("param_out", "the parameter after the step", kFloats)
        .InplaceOf("param")
        .Out("velocity_out", "the velocity after the step", kFloats)
        .InplaceOf("velocity")
        .Shape([](ShapeContext& ctx) {
          OptimizerShape(ctx, 2, {"grad", "velocity"});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const Options options{ctx.op().Float("mu"), ctx.op().Float("weight_decay")};
          const bool nesterov = ctx.op().Bool("use_nesterov");
          return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
            using T = decltype(t);
            const KernelFn run = nesterov ? Best<Body<T, true>>() : Best<Body<T, false>>();
            return SplitFlat(ctx, WithState(run, options));
          });
        })
        .Oracle(R"(
t = param.dtype.type
g = grad + t(weight_decay) * param
v = t(mu) * velocity + g
param - lr * (g + t(mu) * v if use_nesterov else v), v
)")
        .Sample("param=[5,7] grad=[5,7] velocity=[5,7] lr=[1]")
        .Sample("param=[33] grad=[33] velocity=[33] lr=[] mu=0.5 use_nesterov=True")
        .Sample("param=[19] grad=[19] velocity=[19] lr=[] weight_decay=0.3")
        .Sample("param=[3] grad=[3] velocity=[3] lr=[] weight_decay=0.3 use_nesterov=True")
        .Sample("param=[0,3] grad=[0,3] velocity=[0,3] lr=[1]")
        .Register();

}  // namespace
}  // namespace opstep
