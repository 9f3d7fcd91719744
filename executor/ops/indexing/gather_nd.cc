// gather_nd: slices of X by rows of indices, and its gradient.
#include "ops/grad/terms.h"
#include "ops/indexing/index_lookup.h"

namespace opstep {
namespace {

Kernel Prepare(const PrepareContext& ctx) {
  const int batch_dims = static_cast<int>(ctx.op().Int("batch_dims"));
  return TakeKernel(ctx.in(0).dtype, MakeRowLookup(batch_dims, ctx.in(0).dims, ctx.in(1).dims));
}

Kernel PrepareGrad(const PrepareContext& ctx) {
  const int batch_dims = static_cast<int>(ctx.op().Int("batch_dims"));
  return TakeGradKernel(ctx.out(0).dtype,
                        MakeRowLookup(batch_dims, ctx.in(0).dims, ctx.in(1).dims));
}

const bool kGatherNd =
    Op("gather_nd")
        .Doc("Takes slices of X: each row of indices is the leading part of a position in X.")
        .In("X", "any shape", kEvery)
        .In("indices", "[…, length of a row]; negative ones count from the end", kIndices)
        .Attr(IntAttr("batch_dims", 0), "leading axes that X and indices have in common")
        .Out("out", "the slices, shaped as indices without its last axis and the slices' own axes",
             kEvery)
        .Shape([](ShapeContext& ctx) {
          const int64_t batch_dims = ctx.op().Int("batch_dims");
          ctx.set_out(
              0, {ctx.in(0).dtype, RowLookupShape(ctx.in(0).dims, ctx.in(1).dims, batch_dims)});
        })
        .Prepare(Prepare)
        .Grad([](GradContext& g) {
          g.EmitGrad("gather_nd_grad", {"X", "indices"}, {}, {"out"}, {"X"});
        })
        .Oracle(R"(
depth = indices.shape[-1]
out = np.empty(indices.shape[:-1] + X.shape[batch_dims + depth:], X.dtype)
for k in np.ndindex(indices.shape[:-1]):
    out[k] = X[k[:batch_dims]][tuple(indices[k])]
out
)")
        .Sample("X=[5,7] indices=int64[3,2!]{-5,4}")
        .Sample("X=[5,17] indices=int32[4,1!]{0,4}")
        .Sample("X=[3,4,5] indices=int64[2,3,2!]{0,2}")
        .Sample("X=[3,4,5] indices=int64[3,2,1!]{-4,3} batch_dims=1")
        .Sample("X=[2,3,4] indices=int64[2,3,1!]{0,3} batch_dims=2")
        .Sample("X=[2,3] indices=int64[2!]{0,1}")
        .Sample("X=[2,3] indices=int64[4,0!]")
        .Sample("X=[0,3] indices=int64[0,1!]")
        .Register();

const bool kGatherNdGrad = TakeGradOp("gather_nd_grad", "gather_nd")
                               .Attr(IntAttr("batch_dims", 0), "as in gather_nd")
                               .Prepare(PrepareGrad)
                               .Grad(MovedGradient)
                               .Register();

}  // namespace
}  // namespace opstep
