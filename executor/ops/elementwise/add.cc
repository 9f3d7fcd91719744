// add: X + Y with broadcasting, its gradient, and the sum of two gradient terms.
#include "ops/grad/terms.h"
#include "ops/lib/binary.h"

namespace opstep {
namespace {

struct Add {
  static constexpr Types kTypes = Types::kNumbers;
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T y) {
    return Plus(x, y);
  }
};

struct AddGrad {
  static constexpr bool kNeedsX = false, kNeedsY = false, kNeedsOut = false;
  static constexpr bool kPassesOn = true;
  template <typename T>
  OPSTEP_INLINE static T X(T, T, T, T d) {
    return d;
  }
  template <typename T>
  OPSTEP_INLINE static T Y(T, T, T, T d) {
    return d;
  }
};

const bool kAdd =
    BinaryOp<Add>("add", "Adds two tensors element by element, with broadcasting.", "X + Y")
        .Role(OpRole::kAdd)
        .Grad([](GradContext& g) {
          g.EmitGrad("add_grad", {"X", "Y"}, {}, {"out"}, {"X", "Y"});
        })
        .Oracle("X + Y")
        .Sample("X=[3,5] Y=[3,5]")
        .Sample("X=[7,17] Y=[17]")
        .Sample("X=[17] Y=[7,17]")
        .Sample("X=[2,3,37] Y=[2,1,37]")
        .Sample("X=[4,1,3] Y=[5,1]")
        .Sample("X=[4,33] Y=[4,1]")
        .Sample("X=[] Y=[2,3]")
        .Sample("X=[1] Y=[]")
        .Sample("X=[0,3] Y=[1,3]")
        .Sample("X=float32[64]{special} Y=float32[8,1]{special}")
        .Register();

const bool kAddGrad =
    BinaryGradOp<AddGrad>("add_grad",
                          "Gradient of add: dout, summed over the broadcast dimensions.")
        .Grad([](GradContext& g) { BothSides(g, {}); })
        .Register();

}  // namespace

Term operator+(const Term& x, const Term& y) {
  if (!x || !y) return x ? x : y;
  return Term("add", {{"X", {x}}, {"Y", {y}}}, "out");
}

Term SummedTo(const Term& x, const Term& like) {
  return x ? Term("add_grad", {{"X", {x}}, {"Y", {like}}, {"dout", {x}}}, "dY") : x;
}

}  // namespace opstep
