// group_norm: normalizes each group of channels of each image, and its gradient.
#include "ops/nn/plane_norm.h"

namespace opstep {
namespace {

PlaneNormState Analyse(const PrepareContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  const int64_t groups = ctx.op().Int("num_groups");
  const int64_t planes = x[1] / groups;
  return {{.sets = x[0] * groups,
           .planes_in_set = planes,
           .set_step = planes,
           .channels = x[1],
           .size = PlaneSize(x)},
          ctx.op().Float("epsilon")};
}

const auto kEpsilon = FloatAttr("epsilon", 1e-5);

const bool kGroupNorm =
    Op("group_norm")
        .Doc(
            "Gives each group of channels of each image the mean 0 and the variance 1, then scale "
            "and bias.")
        .In("X", "[N, C, ...]", kFloats)
        .In("scale", "[C]", kFloats)
        .In("bias", "[C]", kFloats)
        .Required("num_groups", AttrType::kInt,
                  "the number of groups of equal size that C is split into")
        .Attr(kEpsilon, "added to the variance")
        .Out("out", "as X", kFloats)
        .Shape([](ShapeContext& ctx) {
          PlaneNormShape(ctx, {"scale", "bias"});
          const int64_t groups = ctx.op().Int("num_groups");
          const int64_t channels = ctx.in(0).dims[1];
          OPSTEP_CHECK(groups >= 1 && (channels < 0 || channels % groups == 0), "X has ", channels,
                       " channels, which cannot be split into ", groups, " groups");
        })
        .Prepare(PreparePlaneNorm<Analyse, false>)
        .Grad([](GradContext& g) {
          g.EmitGrad("group_norm_grad", {"X", "scale"}, {}, {"out"}, {"X", "scale", "bias"});
        })
        .Oracle(R"(
rows = X.reshape(len(X), num_groups, X[0].size // num_groups if len(X) else 1)
mean, var = rows.mean(axis=2, keepdims=True), rows.var(axis=2, keepdims=True)
unit = ((rows - mean) / np.sqrt(var + X.dtype.type(epsilon))).reshape(X.shape)
per_channel = (-1, *[1] * (X.ndim - 2))
unit * scale.reshape(per_channel) + bias.reshape(per_channel)
)")
        .Sample("X=[2,6,3,2] scale=[6] bias=[6] num_groups=3")
        .Sample("X=[3,4,7] scale=[4] bias=[4] num_groups=1 epsilon=0.5")
        .Sample("X=[2,3,5] scale=[3] bias=[3] num_groups=3")
        .Sample("X=[3,8] scale=[8] bias=[8] num_groups=2")
        .Register();

const bool kGroupNormGrad = PlaneNormGradOp("group_norm_grad", "Gradient of group_norm.")
                                .Required("num_groups", AttrType::kInt, "as in the forward op")
                                .Attr(kEpsilon, "as in the forward op")
                                .Prepare(PreparePlaneNorm<Analyse, true>)
                                .Register();

}  // namespace
}  // namespace opstep
