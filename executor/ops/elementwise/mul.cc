// mul: X * Y with broadcasting, its gradient, and the product of two gradient terms.
#include "ops/grad/terms.h"
#include "ops/lib/binary.h"

namespace opstep {
namespace {

struct Mul {
  static constexpr Types kTypes = Types::kNumbers;
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T y) {
    return Times(x, y);
  }
};

struct MulGrad {
  static constexpr bool kNeedsX = true, kNeedsY = true, kNeedsOut = false;
  template <typename T>
  OPSTEP_INLINE static T X([[maybe_unused]] T x, [[maybe_unused]] T y, [[maybe_unused]] T out,
                           T d) {
    return d * y;
  }
  template <typename T>
  OPSTEP_INLINE static T Y([[maybe_unused]] T x, [[maybe_unused]] T y, [[maybe_unused]] T out,
                           T d) {
    return d * x;
  }
};

const bool kMul =
    BinaryOp<Mul>("mul", "Multiplies two tensors element by element, with broadcasting.", "X * Y")
        .Grad([](GradContext& g) {
          g.EmitGrad("mul_grad", {"X", "Y"}, {}, {"out"}, {"X", "Y"});
        })
        .Oracle("X * Y")
        .Sample("X=[3,17] Y=[3,17]")
        .Sample("X=[7,17] Y=[17]")
        .Sample("X=[4,33] Y=[4,1]")
        .Sample("X=[2,1,5] Y=[3,1]")
        .Sample("X=[] Y=[4]")
        .Sample("X=[0,3] Y=[3]")
        .Sample("X=float32[64]{special} Y=float32[8,1]{special}")
        .Register();

const bool kMulGrad =
    BinaryGradOp<MulGrad>(
        "mul_grad", "Gradient of mul: dout * Y and dout * X, summed over the broadcast dimensions.")
        .Grad([](GradContext& g) { ProductGradient(g, "Y"); })
        .Register();

}  // namespace

Term operator*(const Term& x, const Term& y) {
  return x && y ? Term("mul", {{"X", {x}}, {"Y", {y}}}, "out") : Term();
}

}  // namespace opstep
