// gather_elements: single elements of X by index along an axis, and its gradient.
#include "ops/grad/terms.h"
#include "ops/indexing/index_lookup.h"

namespace opstep {
namespace {

ElementLookup MakeLookup(const PrepareContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  return MakeElementLookup(NormalizeAxis(ctx.op().Int("axis"), x, "X"), x, ctx.in(1).dims);
}

const bool kGatherElements =
    Op("gather_elements")
        .Doc("Takes single elements of X: each index replaces the position along an axis.")
        .In("X", "any shape but []", kEvery)
        .In("indices", "as many axes as X; negative ones count from the end", kIndices)
        .Attr(IntAttr("axis", 0), "the axis; negative from the end")
        .Out("out", "shaped as indices", kEvery)
        .Shape([](ShapeContext& ctx) {
          const Dims& x = ctx.in(0).dims;
          const int axis = NormalizeAxis(ctx.op().Int("axis"), x, "X");
          CheckElementIndices(x, ctx.in(1).dims, axis);
          ctx.set_out(0, {ctx.in(0).dtype, ctx.in(1).dims});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return TakeKernel(ctx.in(0).dtype, MakeLookup(ctx));
        })
        .Grad([](GradContext& g) {
          g.EmitGrad("gather_elements_grad", {"X", "indices"}, {}, {"out"}, {"X"});
        })
        .Oracle(R"(
other = [slice(n) for n in indices.shape]
other[axis] = slice(None)
np.take_along_axis(X[tuple(other)], indices, axis)
)")
        .Sample("X=[5,3] indices=int64[7,3]{-5,4}")
        .Sample("X=[4,9] indices=int32[4,2]{0,8} axis=1")
        .Sample("X=[3,4,5] indices=int64[2,6,4]{-4,3} axis=-2")
        .Sample("X=[6] indices=int64[3]{0,5}")
        .Sample("X=[0,3] indices=int64[0,3]")
        .Sample("X=[2,3] indices=int64[2,0] axis=1")
        .Register();

const bool kGatherElementsGrad = TakeGradOp("gather_elements_grad", "gather_elements")
                                     .Attr(IntAttr("axis", 0), "as in gather_elements")
                                     .Prepare([](const PrepareContext& ctx) -> Kernel {
                                       return TakeGradKernel(ctx.out(0).dtype, MakeLookup(ctx));
                                     })
                                     .Grad(MovedGradient)
                                     .Register();

}  // namespace
}  // namespace opstep
