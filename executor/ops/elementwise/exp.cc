// exp: e to the power of each element, and its gradient.
#include "ops/grad/terms.h"
#include "ops/lib/numeric.h"
#include "ops/lib/unary.h"

namespace opstep {
namespace {

struct ExpOp {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return Exp(x);
  }
};

struct ExpOpGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T out, T d) {
    return d * out;
  }
};

const bool kExp =
    Op("exp")
        .Doc("e to the power of each element.")
        .In("X", "any shape", kFloats)
        .Out("out", "e ** X", kFloats)
        .InplaceOf("X")
        .Shape(OutLikeInput<0>)
        .Prepare(PrepareUnary<ExpOp>)
        .Grad([](GradContext& g) { g.EmitGrad("exp_grad", {}, {"out"}, {"out"}, {"X"}); })
        .Oracle("np.exp(X)")
        .Sample("X=[3,17]")
        .Sample("X=[101,3]{-110,95}")
        .Sample("X=[0,2]")
        .Sample("X=[]")
        .Sample("X=[64]{special}")
        .Register();

const bool kExpGrad =
    Op("exp_grad")
        .Doc("Gradient of exp: dout * out.")
        .In("out", "output of exp", kFloats)
        .In("dout", "gradient of out", kFloats)
        .Out("dX", "gradient of X", kFloats)
        .InplaceOf("dout")
        .Shape(OutLikeInput<0>)
        .Prepare(PrepareUnaryGrad<ExpOpGrad>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "out",
                          [](GradContext&, const Term&, const Term& p) -> Term { return p; });
        })
        .Register();

}  // namespace

Term ExpOf(const Term& x) { return x ? Term("exp", {{"X", {x}}}, "out") : x; }

}  // namespace opstep
