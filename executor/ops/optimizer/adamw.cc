// adamw: one step of Adam with decoupled weight decay.
#include "ops/optimizer/adam_step.h"

namespace opstep {
namespace {

const bool kAdamw =
    Op("adamw")
        .Doc(
            "One step of Adam with decoupled weight decay (Loshchilov and Hutter, 2019): "
            "param -= lr * weight_decay * param, then as in adam without decay.")
        .In("param", "a parameter", kFloats)
        .In("grad", "its gradient", kFloats)
        .In("moment1", "mean of past gradients, as param", kFloats)
        .In("moment2", "mean of their squares, as param", kFloats)
        .In("lr", "learning rate, one element", kFloats)
        .In("step", "how many steps were taken before, one element", DTypeSet(DType::kInt64))
        .Attr(FloatAttr("beta1", 0.9), "what is left of moment1 after a step")
        .Attr(FloatAttr("beta2", 0.999), "what is left of moment2 after a step")
        .Attr(FloatAttr("epsilon", 1e-8), "keeps the divisor away from 0")
        .Attr(FloatAttr("weight_decay", 0.01), "share of the parameter that a step takes, times lr")
        .Out("param_out", "the parameter after the step", kFloats)
        .InplaceOf("param")
        .Out("moment1_out", "moment1 after the step", kFloats)
        .InplaceOf("moment1")
        .Out("moment2_out", "moment2 after the step", kFloats)
        .InplaceOf("moment2")
        .Shape(AdamShape)
        .Prepare(PrepareAdam<true>)
        .Oracle(R"(
t = param.dtype.type
n = int(step.ravel()[0]) + 1
p = param - lr * t(weight_decay) * param
m = t(beta1) * moment1 + t(1 - beta1) * grad
v = t(beta2) * moment2 + t(1 - beta2) * grad * grad
p - lr * (m / t(1 - beta1**n)) / (np.sqrt(v / t(1 - beta2**n)) + t(epsilon)), m, v
)")
        .Sample("param=[5,7] grad=[5,7] moment1=[5,7] moment2=[5,7]{0.1,2} lr=[1] step=[1]{0,0}")
        .Sample(
            "param=[33] grad=[33] moment1=[33] moment2=[33]{0.1,2} lr=[] step=[]{5,5} "
            "beta1=0.5 beta2=0.9 epsilon=0.1 weight_decay=0")
        .Sample(
            "param=[19] grad=[19] moment1=[19] moment2=[19]{0.1,2} lr=[] step=[]{99,99} "
            "weight_decay=0.3")
        .Sample("param=[0,3] grad=[0,3] moment1=[0,3] moment2=[0,3] lr=[1] step=[1]{1,1}")
        .Register();

}  // namespace
}  // namespace opstep
