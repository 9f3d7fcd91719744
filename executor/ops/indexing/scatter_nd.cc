// scatter_nd: writes slices by rows of indices, and its gradient.
#include "ops/indexing/scatter.h"

namespace opstep {
namespace {

const bool kScatterNd =
    ScatterOp("scatter_nd",
              "Copies X and writes slices: each row of indices is the leading part of a position "
              "in X.",
              "[…, length of a row]; negative ones count from the end")
        .Shape([](ShapeContext& ctx) {
          const VarType &x = ctx.in(0), &indices = ctx.in(1), &updates = ctx.in(2);
          ReductionOf(ctx.op());
          CheckSameDType(x, "X", updates, "updates");
          // The depth of the rows may not be known yet.
          if (indices.dims.rank() == 0 || indices.dims[indices.dims.rank() - 1] >= 0) {
            const Dims slices = RowLookupShape(x.dims, indices.dims, 0);
            OPSTEP_CHECK(ShapesAgree(slices, updates.dims), "X is ", x.dims.ToString(),
                         " and indices is ", indices.dims.ToString(), ", so updates must be ",
                         slices.ToString(), ", not ", updates.dims.ToString());
          }
          ctx.set_out(0, x);
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return ScatterKernel(ctx, MakeRowLookup(0, ctx.in(0).dims, ctx.in(1).dims));
        })
        .Grad([](GradContext& g) { EmitScatterGrad(g, "scatter_nd_grad"); })
        .Oracle(R"(
combine = {"none": lambda a, b: b, "add": np.add, "mul": np.multiply, "max": np.maximum,
           "min": np.minimum}[reduction]
out = X.copy()
for k in np.ndindex(indices.shape[:-1]):
    at = tuple(indices[k])
    out[at] = combine(out[at], updates[k])
out
)")
        .Sample("X=[5,7] indices=int64[3,2!]{-5,4} updates=[3]")
        .Sample("X=[5,17] indices=int32[4,1!]{0,4} updates=[4,17]")
        .Sample("X=[3,4,5] indices=int64[2,3,2!]{0,2} updates=[2,3,5]")
        .Sample("X=float64[4,3] indices=int64[6,1!]{0,3} updates=float64[6,3] reduction=add")
        .Sample("X=int64[4,3] indices=int64[6,1!]{0,3} updates=int64[6,3] reduction=add")
        .Sample("X=float32[4,3] indices=int64[6,1!]{0,3} updates=float32[6,3] reduction=mul")
        .Sample("X=float64[4,3] indices=int64[6,1!]{-4,3} updates=float64[6,3] reduction=max")
        .Sample("X=float64[4,3] indices=int64[6,2!]{0,2} updates=float64[6] reduction=min")
        .Sample("X=[2,3] indices=int64[2!]{0,1} updates=[]")
        .Sample("X=[2,3] indices=int64[4,0!] updates=[4,2,3]")
        .Sample("X=[0,3] indices=int64[0,1!] updates=[0,3]")
        .Sample("X=[4,0] indices=int64[2,1!]{0,3} updates=[2,0]")
        .Register();

const bool kScatterNdGrad =
    ScatterGradOp("scatter_nd_grad", "scatter_nd")
        .Shape([](ShapeContext& ctx) {
          const VarType &indices = ctx.in(0), &dout = ctx.in(1);
          ctx.set_out(0, dout);
          ctx.set_out(1, {dout.dtype, RowLookupShape(dout.dims, indices.dims, 0)});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return ScatterGradKernel(ctx, MakeRowLookup(0, ctx.in(1).dims, ctx.in(0).dims));
        })
        .Register();

}  // namespace
}  // namespace opstep
