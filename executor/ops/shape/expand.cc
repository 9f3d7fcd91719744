// expand: spreads a tensor over a larger shape, and its gradient.
#include "ops/grad/terms.h"
#include "ops/lib/strided_copy.h"

namespace opstep {
namespace {

// From X to the larger shape: X does not advance along the spread axes.
StridedLoop ExpandLoop(const Dims& x, const Dims& out) {
  const Strides from = DenseStrides(x), to = DenseStrides(out);
  const int added = out.rank() - x.rank();
  StridedLoop loop;
  for (int i = 0; i < out.rank(); ++i) {
    const bool along = i >= added && x[i - added] != 1;
    loop.Add(out[i], along ? from[i - added] : 0, to[i]);
  }
  return loop;
}

const bool kExpand =
    Op("expand")
        .Doc("Spreads a tensor over a larger shape, as broadcasting does.")
        .In("X", "any shape", kEvery)
        .Required("shape", AttrType::kInts,
                  "sizes that X is broadcast with; a 1 leaves the size of X")
        .Out("out", "X in the shape that both broadcast to", kEvery)
        .Shape([](ShapeContext& ctx) {
          const Dims shape = DimsFromAttr(ctx.op(), "shape");
          ctx.set_out(0, {ctx.in(0).dtype, BroadcastDims(ctx.in(0).dims, "X", shape, "shape")});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return StridedCopyKernel(ctx.in(0).dtype, ExpandLoop(ctx.in(0).dims, ctx.out(0).dims));
        })
        .Grad([](GradContext& g) { g.EmitGrad("expand_grad", {"X"}, {}, {"out"}, {"X"}); })
        .Oracle("np.broadcast_to(X, np.broadcast_shapes(X.shape, tuple(shape)))")
        .Sample("X=[3,1] shape=[3,17]")
        .Sample("X=[17] shape=[4,1]")
        .Sample("X=[2,1,5] shape=[3,1]")
        .Sample("X=[1,3,1] shape=[2,1,5]")
        .Sample("X=[] shape=[2,3]")
        .Sample("X=[3,1] shape=[2,1,1,1]")
        .Sample("X=[1,3] shape=[0,3]")
        .Sample("X=[4] shape=[]")
        .Register();

const bool kExpandGrad =
    MoveGradOp("expand_grad", "Gradient of expand: dout summed over what was spread.", "expand")
        .Shape([](ShapeContext& ctx) {
          const Dims &x = ctx.in(0).dims, &dout = ctx.in(1).dims;
          const Dims spread = BroadcastDims(x, "X", dout, "dout");
          OPSTEP_CHECK(ShapesAgree(spread, dout), "X is ", x.ToString(), " but dout is ",
                       dout.ToString(), ": X must spread to it");
          ctx.set_out(0, ctx.in(0));
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return StridedAddKernel(ctx.out(0).dtype,
                                  ExpandLoop(ctx.in(0).dims, ctx.in(1).dims).Reversed());
        })
        .Grad(
            [](GradContext& g) { Give(g, "dout", SpreadTo(OutGradient(g, "dX"), In(g, "dout"))); })
        .Register();

}  // namespace
}  // namespace opstep
