// minimum: the smaller of X and Y with broadcasting, and its gradient.
#include "ops/grad/terms.h"
#include "ops/lib/binary.h"

namespace opstep {
namespace {

struct Minimum {
  static constexpr Types kTypes = Types::kNumbers;
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T y) {
    return MinOf(x, y);
  }
};

struct MinimumGrad {
  static constexpr bool kNeedsX = true, kNeedsY = true, kNeedsOut = false;
  template <typename T>
  OPSTEP_INLINE static T X([[maybe_unused]] T x, [[maybe_unused]] T y, [[maybe_unused]] T out,
                           T d) {
    return x == y ? d / T(2) : x < y || x != x ? d : T(0);
  }
  template <typename T>
  OPSTEP_INLINE static T Y([[maybe_unused]] T x, [[maybe_unused]] T y, [[maybe_unused]] T out,
                           T d) {
    return x == y ? d / T(2) : y < x || y != y ? d : T(0);
  }
};

const bool kMinimum =
    BinaryOp<Minimum>("minimum",
                      "The smaller of two elements, with broadcasting; NaN when either is.",
                      "min(X, Y)")
        .Grad([](GradContext& g) {
          g.EmitGrad("minimum_grad", {"X", "Y"}, {}, {"out"}, {"X", "Y"});
        })
        .Oracle("np.minimum(X, Y)")
        .Sample("X=[3,17] Y=[3,17]")
        .Sample("X=[7,17] Y=[17]")
        .Sample("X=[4,33] Y=[4,1]")
        .Sample("X=[2,1,5] Y=[3,1]")
        .Sample("X=[] Y=[4]")
        .Sample("X=[0,3] Y=[3]")
        .Sample("X=float32[64]{special} Y=float32[8,1]{special}")
        .Register();

const bool kMinimumGrad =
    BinaryGradOp<MinimumGrad>("minimum_grad",
                              "Gradient of minimum: dout to the smaller side, half to each "
                              "when they are equal, summed over the broadcast dimensions.")
        .Grad(ChosenGradient)
        .Register();

}  // namespace
}  // namespace opstep
