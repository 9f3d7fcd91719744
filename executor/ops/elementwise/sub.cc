// sub: X - Y with broadcasting, its gradient, and the difference of two gradient terms.
#include "ops/grad/terms.h"
#include "ops/lib/binary.h"

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
  static constexpr bool kPassesOn = true;
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

const bool kSub =
    BinaryOp<Sub>("sub", "Subtracts Y from X element by element, with broadcasting.", "X - Y")
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
    BinaryGradOp<SubGrad>("sub_grad",
                          "Gradient of sub: dout and -dout, summed over the broadcast dimensions.")
        .Grad([](GradContext& g) { BothSides(g, {}); })
        .Register();

}  // namespace

Term operator-(const Term& x, const Term& y) {
  if (!x || !y) return x ? x : -y;
  return Term("sub", {{"X", {x}}, {"Y", {y}}}, "out");
}

}  // namespace opstep
