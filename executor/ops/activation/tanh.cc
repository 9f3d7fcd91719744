// tanh: the hyperbolic tangent of each element, and its gradient.
#include "ops/grad/terms.h"
#include "ops/lib/numeric.h"
#include "ops/lib/unary.h"

namespace opstep {
namespace {

struct TanhOp {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return Tanh(x);
  }
};

struct TanhOpGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T out, T d) {
    return d * (T(1) - out * out);
  }
};

const bool kTanhOp =
    Op("tanh")
        .Doc("The hyperbolic tangent of each element.")
        .In("X", "any shape", kFloats)
        .Out("out", "tanh(X)", kFloats)
        .InplaceOf("X")
        .Shape(OutLikeInput<0>)
        .Prepare(PrepareUnary<TanhOp>)
        .Grad([](GradContext& g) { g.EmitGrad("tanh_grad", {}, {"out"}, {"out"}, {"X"}); })
        .Oracle("np.tanh(X)")
        .Sample("X=[3,17]")
        .Sample("X=[99]{-12,12}")
        .Sample("X=[0,2]")
        .Sample("X=[]")
        .Sample("X=[64]{special}")
        .Register();

const bool kTanhOpGrad =
    Op("tanh_grad")
        .Doc("Gradient of tanh: dout * (1 - out ** 2).")
        .In("out", "output of tanh", kFloats)
        .In("dout", "gradient of out", kFloats)
        .Out("dX", "gradient of X", kFloats)
        .InplaceOf("dout")
        .Shape(OutLikeInput<0>)
        .Prepare(PrepareUnaryGrad<TanhOpGrad>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "out", [](GradContext&, const Term& out, const Term& p) -> Term {
            return Scaled(out * p, -2);
          });
        })
        .Register();

}  // namespace
}  // namespace opstep
