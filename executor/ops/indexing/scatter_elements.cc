// scatter_elements: writes single elements by index along an axis, and its gradient.
#include "ops/indexing/scatter.h"

namespace opstep {
namespace {

ElementLookup MakeLookup(const OpView& op, const Dims& x, const Dims& indices) {
  return MakeElementLookup(NormalizeAxis(op.Int("axis"), x, "X"), x, indices);
}

const bool kScatterElements =
    ScatterOp("scatter_elements",
              "Copies X and writes single elements: each index replaces the position along an "
              "axis.",
              "as many axes as X; negative ones count from the end")
        .Attr(IntAttr("axis", 0), "the axis; negative from the end")
        .Shape([](ShapeContext& ctx) {
          const VarType &x = ctx.in(0), &indices = ctx.in(1), &updates = ctx.in(2);
          ReductionOf(ctx.op());
          CheckElementIndices(x.dims, indices.dims,
                              NormalizeAxis(ctx.op().Int("axis"), x.dims, "X"));
          CheckSameDType(x, "X", updates, "updates");
          OPSTEP_CHECK(ShapesAgree(indices.dims, updates.dims), "indices is ",
                       indices.dims.ToString(), " but updates is ", updates.dims.ToString(),
                       ": they must be alike");
          ctx.set_out(0, x);
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return ScatterKernel(ctx, MakeLookup(ctx.op(), ctx.in(0).dims, ctx.in(1).dims));
        })
        .Grad([](GradContext& g) { EmitScatterGrad(g, "scatter_elements_grad"); })
        .Oracle(R"(
combine = {"none": lambda a, b: b, "add": np.add, "mul": np.multiply, "max": np.maximum,
           "min": np.minimum}[reduction]
out = X.copy()
for k in np.ndindex(indices.shape):
    at = list(k)
    at[axis] = indices[k]
    out[tuple(at)] = combine(out[tuple(at)], updates[k])
out
)")
        .Sample("X=[5,3] indices=int64[7,3]{-5,4} updates=[7,3]")
        .Sample("X=[4,9] indices=int32[4,2]{0,8} updates=[4,2] axis=1")
        .Sample("X=[3,4,5] indices=int64[2,1,4]{-4,3} updates=[2,1,4] axis=-2")
        .Sample("X=float64[4,3] indices=int64[6,2]{0,3} updates=float64[6,2] reduction=add")
        .Sample("X=int64[9] indices=int64[33]{0,8} updates=int64[33] reduction=add")
        .Sample("X=float32[3,4] indices=int64[3,5]{0,3} updates=float32[3,5] axis=1 reduction=mul")
        .Sample("X=int32[5] indices=int32[9]{-5,4} updates=int32[9] reduction=mul")
        .Sample("X=float64[3,4] indices=int64[3,5]{0,3} updates=float64[3,5] axis=1 reduction=max")
        .Sample("X=float64[6] indices=int32[9]{0,5} updates=float64[9] reduction=min")
        .Sample(
            "X=float32[13]{special} indices=int32[13]{0,12} updates=float32[13]{special} "
            "reduction=max")
        .Sample("X=[0,3] indices=int64[0,3] updates=[0,3]")
        .Sample("X=[2,3] indices=int64[0,3] updates=[0,3]")
        .Register();

const bool kScatterElementsGrad =
    ScatterGradOp("scatter_elements_grad", "scatter_elements")
        .Attr(IntAttr("axis", 0), "as in scatter_elements")
        .Shape([](ShapeContext& ctx) {
          ctx.set_out(0, ctx.in(1));
          ctx.set_out(1, {ctx.in(1).dtype, ctx.in(0).dims});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return ScatterGradKernel(ctx, MakeLookup(ctx.op(), ctx.in(1).dims, ctx.in(0).dims));
        })
        .Register();

}  // namespace
}  // namespace opstep
