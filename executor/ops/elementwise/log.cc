// log: the natural logarithm of each element, and its gradient.
#include "ops/grad/terms.h"
#include "ops/lib/numeric.h"
#include "ops/lib/unary.h"

namespace opstep {
namespace {

struct LogOp {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return Log(x);
  }
};

struct LogOpGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T d) {
    return d / x;
  }
};

const bool kLogOp =
    Op("log")
        .Doc("The natural logarithm of each element: -inf at 0, NaN below.")
        .In("X", "any shape", kFloats)
        .Out("out", "log(X)", kFloats)
        .InplaceOf("X")
        .Shape(OutLikeInput<0>)
        .Prepare(PrepareUnary<LogOp>)
        .Grad([](GradContext& g) { g.EmitGrad("log_grad", {"X"}, {}, {"out"}, {"X"}); })
        .Oracle("np.log(X)")
        .Sample("X=[3,17]{0.1,5}")
        .Sample("X=float32[101]{0,1e-37}")
        .Sample("X=float32[77]{1,1e30}")
        .Sample("X=[0,2]")
        .Sample("X=[]{0.5,2}")
        .Sample("X=[64]{special}")
        .Register();

const bool kLogOpGrad =
    Op("log_grad")
        .Doc("Gradient of log: dout / X.")
        .In("X", "input of log", kFloats)
        .In("dout", "gradient of out", kFloats)
        .Out("dX", "gradient of X", kFloats)
        .InplaceOf("dout")
        .Shape(OutLikeInput<0>)
        .Prepare(PrepareUnaryGrad<LogOpGrad>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "X", [](GradContext&, const Term& x, const Term& p) -> Term {
            return -(p / x / x);
          });
        })
        .Register();

}  // namespace

Term LogOf(const Term& x) { return Term("log", {{"X", {x}}}, "out"); }

}  // namespace opstep
