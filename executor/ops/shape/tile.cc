// tile: repeats a tensor along its axes, and its gradient.
#include "ops/grad/terms.h"
#include "ops/lib/strided_copy.h"

namespace opstep {
namespace {

// From X to its repetitions. Each axis is walked as [repetition, index].
StridedLoop TileLoop(const OpView& op, const Dims& x, const Dims& out) {
  const std::vector<int64_t> repeats = op.Ints("repeats");
  const Strides from = DenseStrides(x), to = DenseStrides(out);
  StridedLoop loop;
  for (int i = 0; i < x.rank(); ++i) {
    loop.Add(repeats[i], 0, x[i] * to[i]);
    loop.Add(x[i], from[i], to[i]);
  }
  return loop;
}

const bool kTile =
    Op("tile")
        .Doc("Repeats a tensor along its axes.")
        .In("X", "any shape", kEvery)
        .Required("repeats", AttrType::kInts, "how often, for each axis of X")
        .Out("out", "X, repeated", kEvery)
        .Shape([](ShapeContext& ctx) {
          Dims out = ctx.in(0).dims;
          const std::vector<int64_t> repeats = ctx.op().Ints("repeats");
          OPSTEP_CHECK(static_cast<int>(repeats.size()) == out.rank(), "X is ", out.ToString(),
                       " but repeats names ", repeats.size(),
                       " numbers: there must be one for each axis");
          for (int i = 0; i < out.rank(); ++i) {
            OPSTEP_CHECK(repeats[i] >= 0, "repeats holds ", repeats[i], ": it must be 0 or more");
            const bool overflows =
                out[i] >= 0 && __builtin_mul_overflow(out[i], repeats[i], &out[i]);
            OPSTEP_CHECK(!overflows, "repeats holds ", repeats[i], ", which is too large");
          }
          ctx.set_out(0, {ctx.in(0).dtype, out});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return StridedCopyKernel(ctx.in(0).dtype,
                                   TileLoop(ctx.op(), ctx.in(0).dims, ctx.out(0).dims));
        })
        .Grad([](GradContext& g) { g.EmitGrad("tile_grad", {"X"}, {}, {"out"}, {"X"}); })
        .Oracle("np.tile(X, repeats)")
        .Sample("X=[3,5] repeats=[2,1]")
        .Sample("X=[3,5] repeats=[1,3]")
        .Sample("X=[2,3,4] repeats=[3,2,2]")
        .Sample("X=[1,17] repeats=[4,2]")
        .Sample("X=[3,1] repeats=[1,7]")
        .Sample("X=[5] repeats=[0]")
        .Sample("X=[0,2] repeats=[3,3]")
        .Sample("X=[] repeats=[]")
        .Register();

const bool kTileGrad =
    MoveGradOp("tile_grad", "Gradient of tile: dout summed over the repetitions.", "tile")
        .Attr(IntsAttr("repeats", {}), "as in tile")
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return StridedAddKernel(ctx.out(0).dtype,
                                  TileLoop(ctx.op(), ctx.in(0).dims, ctx.in(1).dims).Reversed());
        })
        .Grad(MovedGradient)
        .Register();

}  // namespace
}  // namespace opstep
