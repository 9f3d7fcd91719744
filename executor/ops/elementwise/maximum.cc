// maximum and minimum of X and Y with broadcasting, which differ in one sign, and their gradients.
#include "ops/grad/terms.h"
#include "ops/lib/binary.h"

namespace opstep {
namespace {

template <bool kMax>
struct Extreme {
  static constexpr Types kTypes = Types::kNumbers;
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T y) {
    return kMax ? MaxOf(x, y) : MinOf(x, y);
  }
};

template <bool kMax>
struct ExtremeGrad {
  static constexpr bool kNeedsX = true, kNeedsY = true, kNeedsOut = false;
  template <typename T>
  OPSTEP_INLINE static T X(T x, T y, [[maybe_unused]] T out, T d) {
    return x == y ? d / T(2) : (kMax ? x > y : x < y) || x != x ? d : T(0);
  }
  template <typename T>
  OPSTEP_INLINE static T Y(T x, T y, T out, T d) {
    return X(y, x, out, d);
  }
};

Op WithSamples(Op op) {
  op.Sample("X=[3,17] Y=[3,17]")
      .Sample("X=[7,17] Y=[17]")
      .Sample("X=[4,33] Y=[4,1]")
      .Sample("X=[2,1,5] Y=[3,1]")
      .Sample("X=[] Y=[4]")
      .Sample("X=[0,3] Y=[3]")
      .Sample("X=float32[64]{special} Y=float32[8,1]{special}");
  return op;
}

const bool kMaximum =
    WithSamples(BinaryOp<Extreme<true>>(
                    "maximum", "The larger of two elements, with broadcasting; NaN when either is.",
                    "max(X, Y)"))
        .Grad([](GradContext& g) {
          g.EmitGrad("maximum_grad", {"X", "Y"}, {}, {"out"}, {"X", "Y"});
        })
        .Oracle("np.maximum(X, Y)")
        .Register();

const bool kMinimum =
    WithSamples(BinaryOp<Extreme<false>>(
                    "minimum",
                    "The smaller of two elements, with broadcasting; NaN when either is.",
                    "min(X, Y)"))
        .Grad([](GradContext& g) {
          g.EmitGrad("minimum_grad", {"X", "Y"}, {}, {"out"}, {"X", "Y"});
        })
        .Oracle("np.minimum(X, Y)")
        .Register();

const bool kMaximumGrad = BinaryGradOp<ExtremeGrad<true>>(
                              "maximum_grad",
                              "Gradient of maximum: dout to the larger side, half to each when "
                              "they are equal, summed over the broadcast dimensions.")
                              .Grad(ChosenGradient)
                              .Register();

const bool kMinimumGrad =
    BinaryGradOp<ExtremeGrad<false>>("minimum_grad",
                                     "Gradient of minimum: dout to the smaller side, half to each "
                                     "when they are equal, summed over the broadcast dimensions.")
        .Grad(ChosenGradient)
        .Register();

}  // namespace
}  // namespace opstep
