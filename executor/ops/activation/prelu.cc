// prelu: relu with a slope for negative elements that is a tensor and can be learned.
#include "ops/lib/binary.h"

namespace opstep {
namespace {

struct Prelu {
  static constexpr Types kTypes = Types::kNumbers;
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T slope) {
    const T scaled = Times(slope, x);
    return x < T(0) ? scaled : x;
  }
};

struct PreluGrad {
  static constexpr bool kNeedsX = true, kNeedsY = true, kNeedsOut = false;
  template <typename T>
  OPSTEP_INLINE static T X(T x, T slope, [[maybe_unused]] T out, T d) {
    return x < T(0) ? d * slope : d;
  }
  template <typename T>
  OPSTEP_INLINE static T Y(T x, [[maybe_unused]] T slope, [[maybe_unused]] T out, T d) {
    return x < T(0) ? d * x : T(0);
  }
};

const bool kPrelu =
    Op("prelu")
        .Doc("X where it is not negative, else slope * X; slope is a tensor, so it can be learned.")
        .In("X", "any shape", kNumbers)
        .In("slope", "broadcast to the shape of X", kNumbers)
        .Out("out", "as X", kNumbers)
        .InplaceOf("X")
        .Shape([](ShapeContext& ctx) {
          CheckSameDType(ctx.in(0), "X", ctx.in(1), "slope");
          const Dims& x = ctx.in(0).dims;
          const Dims out = BroadcastDims(x, "X", ctx.in(1).dims, "slope");
          OPSTEP_CHECK(ShapesAgree(out, x), "slope is ", ctx.in(1).dims.ToString(), " but X is ",
                       x.ToString(), ": slope must not make X larger");
          ctx.set_out(0, {ctx.in(0).dtype, out});
        })
        .Prepare(PrepareBinary<Prelu>)
        .Grad([](GradContext& g) {
          g.Emit("prelu_grad",
                 {{"X", g.op().Inputs("X")},
                  {"Y", g.op().Inputs("slope")},
                  {"dout", {g.OutGrad("out")}}},
                 {{"dX", {g.InGrad("X")}}, {"dY", {g.InGrad("slope")}}});
        })
        .Oracle("np.where(X < 0, slope * X, X)")
        .Sample("X=[3,17] slope=[3,17]")
        .Sample("X=[7,17] slope=[17]")
        .Sample("X=[2,3,5] slope=[3,1]")
        .Sample("X=[4,33] slope=[1]")
        .Sample("X=[] slope=[]")
        .Sample("X=[0,3] slope=[3]")
        .Sample("X=float32[64]{special} slope=float32[1]")
        .Register();

const bool kPreluGrad =
    BinaryGradOp<PreluGrad>("prelu_grad",
                            "Gradient of prelu, whose slope is Y: dout, times Y where X is "
                            "negative; and dout * X there, summed over the broadcast dimensions.")
        .Shape([](ShapeContext& ctx) {
          const Dims out = BroadcastDims(ctx.in(0).dims, "X", ctx.in(1).dims, "Y");
          OPSTEP_CHECK(ShapesAgree(out, ctx.in(2).dims), "dout is ", ctx.in(2).dims.ToString(),
                       " but must be ", out.ToString());
          GradsLikeInputs(ctx);
        })
        .Register();

}  // namespace
}  // namespace opstep
