// sigmoid: the logistic function of each element, and its gradient.
#include "ops/grad/terms.h"
#include "ops/lib/numeric.h"
#include "ops/lib/unary.h"

namespace opstep {
namespace {

struct SigmoidOp {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return Sigmoid(x);
  }
};

struct SigmoidOpGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T out, T d) {
    return d * out * (T(1) - out);
  }
};

const bool kSigmoidOp =
    Op("sigmoid")
        .Doc("The logistic function of each element: 1 / (1 + exp(-X)).")
        .In("X", "any shape", kFloats)
        .Out("out", "between 0 and 1", kFloats)
        .InplaceOf("X")
        .Shape(OutLikeInput<0>)
        .Prepare(PrepareUnary<SigmoidOp>)
        .Grad([](GradContext& g) { g.EmitGrad("sigmoid_grad", {}, {"out"}, {"out"}, {"X"}); })
        .Oracle("np.where(X < 0, np.exp(-abs(X)), 1) / (1 + np.exp(-abs(X)))")
        .Sample("X=[3,17]")
        .Sample("X=[99]{-30,30}")
        .Sample("X=[0,2]")
        .Sample("X=[]")
        .Sample("X=[64]{special}")
        .Register();

const bool kSigmoidOpGrad =
    Op("sigmoid_grad")
        .Doc("Gradient of sigmoid: dout * out * (1 - out).")
        .In("out", "output of sigmoid", kFloats)
        .In("dout", "gradient of out", kFloats)
        .Out("dX", "gradient of X", kFloats)
        .InplaceOf("dout")
        .Shape(OutLikeInput<0>)
        .Prepare(PrepareUnaryGrad<SigmoidOpGrad>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "out", [](GradContext&, const Term& out, const Term& p) -> Term {
            return p - Scaled(out * p, 2);
          });
        })
        .Register();

}  // namespace

Term SigmoidOf(const Term& x) { return Term("sigmoid", {{"X", {x}}}, "out"); }

}  // namespace opstep
