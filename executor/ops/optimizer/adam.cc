// adam and adamw: one step of Adam, which differ in how weights decay.
#include <cmath>

#include "ops/lib/dispatch.h"
#include "ops/lib/simd.h"
#include "ops/optimizer/optimizer_rules.h"

namespace opstep {
namespace {

struct AdamOptions {
  double beta1, beta2, epsilon, decay;
};

// Inputs param, grad, moment1, moment2, lr, step; outputs param, moment1, moment2. Weight decay is
// part of the gradient, or decoupled from it.
template <typename T, bool kDecoupled>
struct AdamBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const AdamOptions& options = ctx.state<AdamOptions>();
    const double step = static_cast<double>(*ctx.in(5).as<int64_t>()) + 1;
    const double rate = static_cast<double>(*ctx.in(4).as<T>());
    const T beta1 = static_cast<T>(options.beta1);
    const T beta2 = static_cast<T>(options.beta2);
    const T rest1 = static_cast<T>(1 - options.beta1);
    const T rest2 = static_cast<T>(1 - options.beta2);
    const T epsilon = static_cast<T>(options.epsilon);
    // The moments start at 0; this removes the resulting bias towards 0.
    const T scale1 = static_cast<T>(rate / (1 - std::pow(options.beta1, step)));
    const T scale2 = static_cast<T>(1 / std::sqrt(1 - std::pow(options.beta2, step)));
    const T decay = static_cast<T>(kDecoupled ? rate * options.decay : options.decay);
    const T* param = ctx.in(0).as<T>();
    const T* grad = ctx.in(1).as<T>();
    const T* moment1 = ctx.in(2).as<T>();
    const T* moment2 = ctx.in(3).as<T>();
    T* param_out = ctx.out(0).as<T>();
    T* moment1_out = ctx.out(1).as<T>();
    T* moment2_out = ctx.out(2).as<T>();
    const int64_t n = ctx.out(0).numel;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const T p = param[i];
      const T g = kDecoupled ? grad[i] : grad[i] + decay * p;
      const T m = beta1 * moment1[i] + rest1 * g;
      const T v = beta2 * moment2[i] + rest2 * g * g;
      moment1_out[i] = m;
      moment2_out[i] = v;
      param_out[i] =
          (kDecoupled ? p - decay * p : p) - scale1 * m / (std::sqrt(v) * scale2 + epsilon);
    }
  }
};

void AdamShape(ShapeContext& ctx) {
  OptimizerShape(ctx, 3, {"grad", "moment1", "moment2"});
  CheckOneElement(ctx.in(5), "step");
}

template <bool kDecoupled>
Kernel PrepareAdam(const PrepareContext& ctx) {
  const OpView& op = ctx.op();
  const AdamOptions options{op.Float("beta1"), op.Float("beta2"), op.Float("epsilon"),
                            op.Float("weight_decay")};
  return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
    return WithState(Best<AdamBody<decltype(t), kDecoupled>>(), options);
  });
}

// Without the doc, the default of the weight decay and the oracle.
template <bool kDecoupled>
Op AdamOp(std::string type) {
  Op op(std::move(type));
  op.In("param", "a parameter", kFloats)
      .In("grad", "its gradient", kFloats)
      .In("moment1", "mean of past gradients, as param", kFloats)
      .In("moment2", "mean of their squares, as param", kFloats)
      .In("lr", "learning rate, one element", kFloats)
      .In("step", "how many steps were taken before, one element", DTypeSet(DType::kInt64))
      .Attr(FloatAttr("beta1", 0.9), "what is left of moment1 after a step")
      .Attr(FloatAttr("beta2", 0.999), "what is left of moment2 after a step")
      .Attr(FloatAttr("epsilon", 1e-8), "keeps the divisor away from 0")
      .Out("param_out", "the parameter after the step", kFloats)
      .InplaceOf("param")
      .Out("moment1_out", "moment1 after the step", kFloats)
      .InplaceOf("moment1")
      .Out("moment2_out", "moment2 after the step", kFloats)
      .InplaceOf("moment2")
      .Shape(AdamShape)
      .Prepare(PrepareAdam<kDecoupled>)
      .Sample("param=[5,7] grad=[5,7] moment1=[5,7] moment2=[5,7]{0.1,2} lr=[1] step=[1]{0,0}")
      .Sample(
          "param=[33] grad=[33] moment1=[33] moment2=[33]{0.1,2} lr=[] step=[]{5,5} "
          "beta1=0.5 beta2=0.9 epsilon=0.1 weight_decay=0")
      .Sample(
          "param=[19] grad=[19] moment1=[19] moment2=[19]{0.1,2} lr=[] step=[]{99,99} "
          "weight_decay=0.3")
      .Sample("param=[0,3] grad=[0,3] moment1=[0,3] moment2=[0,3] lr=[1] step=[1]{1,1}");
  return op;
}

const bool kAdam =
    AdamOp<false>("adam")
        .Doc(
            "One step of Adam (Kingma and Ba, 2015), with g = grad + weight_decay * param: "
            "moment1 = beta1 * moment1 + (1 - beta1) * g, moment2 the same with beta2 and g * g, "
            "param -= lr * moment1 / (sqrt(moment2) + epsilon) with both moments corrected for "
            "their start at 0.")
        .Attr(FloatAttr("weight_decay", 0.0), "factor of the L2 penalty")
        .Oracle(R"(
t = param.dtype.type
n = int(step.ravel()[0]) + 1
g = grad + t(weight_decay) * param
m = t(beta1) * moment1 + t(1 - beta1) * g
v = t(beta2) * moment2 + t(1 - beta2) * g * g
param - lr * (m / t(1 - beta1**n)) / (np.sqrt(v / t(1 - beta2**n)) + t(epsilon)), m, v
)")
        .Register();

const bool kAdamw =
    AdamOp<true>("adamw")
        .Doc(
            "One step of Adam with decoupled weight decay (Loshchilov and Hutter, 2019): "
            "param -= lr * weight_decay * param, then as in adam without decay.")
        .Attr(FloatAttr("weight_decay", 0.01), "share of the parameter that a step takes, times lr")
        .Oracle(R"(
t = param.dtype.type
n = int(step.ravel()[0]) + 1
p = param - lr * t(weight_decay) * param
m = t(beta1) * moment1 + t(1 - beta1) * grad
v = t(beta2) * moment2 + t(1 - beta2) * grad * grad
p - lr * (m / t(1 - beta1**n)) / (np.sqrt(v / t(1 - beta2**n)) + t(epsilon)), m, v
)")
        .Register();

}  // namespace
}  // namespace opstep
