// erf: the error function of each element, and its gradient.
#include "ops/lib/erf.h"

#include "ops/grad/terms.h"
#include "ops/lib/unary_op.h"

namespace opstep {
namespace {

struct ErfOp {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return Erf(x);
  }
};

struct ErfOpGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T d) {
    return d * (T(1.1283791670955126) * Exp(-x * x));
  }
};

const bool kErf = UnaryOp("erf", "The error function of each element.", "between -1 and 1")
                      .Prepare(PrepareUnary<ErfOp>)
                      .Grad(GradFromX)
                      .Oracle(R"(
import math
np.vectorize(math.erf, otypes=[X.dtype])(X)
)")
                      .Sample("X=[99]{-5,5}")
                      .Sample("X=float32[99]{-1e-3,1e-3}")
                      .Register();

const bool kErfGrad =
    UnaryGradOp("erf_grad", "Gradient of erf: dout * 2 / sqrt(pi) * exp(-X ** 2).", "X")
        .Prepare(PrepareUnaryGrad<ErfOpGrad>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "X", [](GradContext& g, const Term& x, const Term& p) -> Term {
            return Scaled(x * Slope(g, x, 1, p), -2);
          });
        })
        .Register();

}  // namespace
}  // namespace opstep
