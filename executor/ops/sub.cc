#include "ops/binary.h"

namespace opstep {
namespace {

struct Sub {
  static constexpr Types kTypes = Types::kNumbers;
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T y) {
    return Minus(x, y);
  }
};

struct SubGrad {
  static constexpr bool kNeedsX = false, kNeedsY = false, kNeedsOut = false;
  template <typename T>
  OPSTEP_INLINE static T X([[maybe_unused]] T x, [[maybe_unused]] T y, [[maybe_unused]] T out,
                           T d) {
    return d;
  }
  template <typename T>
  OPSTEP_INLINE static T Y([[maybe_unused]] T x, [[maybe_unused]] T y, [[maybe_unused]] T out,
                           T d) {
    return -d;
  }
};

const bool kSub = Op("sub")
                      .Doc("Subtracts Y from X element by element, with broadcasting.")
                      .In("X", "left side", kNumbers)
                      .In("Y", "right side", kNumbers)
                      .Out("out", "X - Y", kNumbers)
                      .InplaceOf("X")
                      .Shape(BinaryShape<>)
                      .Prepare(PrepareBinary<Sub>)
                      .Grad([](GradContext& g) {
                        g.EmitGrad("sub_grad", {"X", "Y"}, {}, {"out"}, {"X", "Y"});
                      })
                      .Oracle("X - Y")
                      .Sample("X=[3,17] Y=[3,17]")
                      .Sample("X=[7,17] Y=[17]")
                      .Sample("X=[4,33] Y=[4,1]")
                      .Sample("X=[2,1,5] Y=[3,1]")
                      .Sample("X=[] Y=[4]")
                      .Sample("X=[0,3] Y=[3]")
                      .Sample("X=float32[64]{special} Y=float32[8,1]{special}")
                      .Register();

const bool kSubGrad =
    Op("sub_grad")
        .Doc("Gradient of sub: dout and -dout, summed over the broadcast dimensions.")
        .In("X", "left side", kFloats)
        .ShapeOnly()
        .In("Y", "right side", kFloats)
        .ShapeOnly()

        .In("dout", "gradient of out", kFloats)
        .Out("dX", "gradient of X", kFloats)
        .Optional()
        .InplaceOf("dout")
        .Out("dY", "gradient of Y", kFloats)
        .Optional()
        .Shape(GradsLikeInputs)
        .Prepare(PrepareBinaryGrad<SubGrad>)
        .Register();

}  // namespace
}  // namespace opstep
