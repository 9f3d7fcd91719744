// square_error_cost: (X - Y) ** 2 with broadcasting, and its gradient.
#include "ops/grad/terms.h"
#include "ops/lib/binary.h"

namespace opstep {
namespace {

struct SquareError {
  static constexpr Types kTypes = Types::kNumbers;
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T y) {
    const T e = Minus(x, y);
    return Times(e, e);
  }
};

struct SquareErrorGrad {
  static constexpr bool kNeedsX = true, kNeedsY = true, kNeedsOut = false;
  template <typename T>
  OPSTEP_INLINE static T X(T x, T y, [[maybe_unused]] T out, T d) {
    return d * (T(2) * (x - y));
  }
  template <typename T>
  OPSTEP_INLINE static T Y(T x, T y, [[maybe_unused]] T out, T d) {
    return d * (T(2) * (y - x));
  }
};

const bool kSquareErrorCost =
    BinaryOp<SquareError>("square_error_cost",
                          "The square of X - Y, element by element, with broadcasting.",
                          "(X - Y) ** 2")
        .Grad([](GradContext& g) {
          g.EmitGrad("square_error_cost_grad", {"X", "Y"}, {}, {"out"}, {"X", "Y"});
        })
        .Oracle("(X - Y) * (X - Y)")
        .Sample("X=[3,17] Y=[3,17]")
        .Sample("X=[7,17] Y=[17]")
        .Sample("X=[4,33] Y=[4,1]")
        .Sample("X=[2,1,5] Y=[3,1]")
        .Sample("X=[] Y=[4]")
        .Sample("X=[0,3] Y=[3]")
        .Sample("X=float32[64]{special} Y=float32[8,1]{special}")
        .Register();

const bool kSquareErrorCostGrad =
    BinaryGradOp<SquareErrorGrad>("square_error_cost_grad",
                                  "Gradient of square_error_cost: dout * 2 * (X - Y) and its "
                                  "opposite, summed over the broadcast dimensions.")
        .Grad([](GradContext& g) {
          const Term x = In(g, "X"), y = In(g, "Y");
          const Term change = Scaled(OutGradient(g, "dX") - OutGradient(g, "dY"), 2);
          Give(g, "dout", (x - y) * change);
          const Term slope = In(g, "dout") * change;
          Give(g, "X", SummedTo(slope, x));
          Give(g, "Y", -SummedTo(slope, y));
        })
        .Register();

}  // namespace
}  // namespace opstep
