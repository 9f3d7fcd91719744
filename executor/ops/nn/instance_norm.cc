// instance_norm: normalizes each channel of each image, and its gradient.
#include "ops/nn/plane_norm.h"

namespace opstep {
namespace {

PlaneNormState Analyse(const PrepareContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  return {{.sets = x[0] * x[1], .channels = x[1], .size = PlaneSize(x)}, ctx.op().Float("epsilon")};
}

const auto kEpsilon = FloatAttr("epsilon", 1e-5);

const bool kInstanceNorm =
    Op("instance_norm")
        .Doc("Gives each channel of each image the mean 0 and the variance 1, then scale and bias.")
        .In("X", "[N, C, ...]", kFloats)
        .In("scale", "[C]", kFloats)
        .In("bias", "[C]", kFloats)
        .Attr(kEpsilon, "added to the variance")
        .Out("out", "as X", kFloats)
        .Shape([](ShapeContext& ctx) {
          PlaneNormShape(ctx, {"scale", "bias"});
        })
        .Prepare(PreparePlaneNorm<Analyse, false>)
        .Grad([](GradContext& g) {
          g.EmitGrad("instance_norm_grad", {"X", "scale"}, {}, {"out"}, {"X", "scale", "bias"});
        })
        .Oracle(R"(
axes = tuple(range(2, X.ndim))
mean, var = X.mean(axis=axes, keepdims=True), X.var(axis=axes, keepdims=True)
per_channel = (-1, *[1] * len(axes))
unit = (X - mean) / np.sqrt(var + X.dtype.type(epsilon))
unit * scale.reshape(per_channel) + bias.reshape(per_channel)
)")
        .Sample("X=[2,3,4,5] scale=[3] bias=[3]")
        .Sample("X=[2,2,19] scale=[2] bias=[2] epsilon=0.5")
        .Sample("X=[1,2,3,2,3] scale=[2] bias=[2]")
        .Sample("X=[0,2,4] scale=[2] bias=[2]")
        .Sample("X=[2,0,4] scale=[0] bias=[0]")
        .Register();

const bool kInstanceNormGrad = PlaneNormGradOp("instance_norm_grad", "Gradient of instance_norm.")
                                   .Attr(kEpsilon, "as in the forward op")
                                   .Prepare(PreparePlaneNorm<Analyse, true>)
                                   .Register();

}  // namespace
}  // namespace opstep
