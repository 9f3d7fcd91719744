// sqrt: the square root of each element, and its gradient.
#include "ops/grad/formula.h"
#include "ops/lib/numeric.h"
#include "ops/lib/unary.h"

namespace opstep {
namespace {

struct Sqrt {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return std::sqrt(x);
  }
};

struct SqrtGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T out, T d) {
    return d / (T(2) * out);
  }
};

const bool kSqrt =
    Op("sqrt")
        .Doc("The square root of each element: NaN below 0.")
        .In("X", "any shape", kFloats)
        .Out("out", "sqrt(X)", kFloats)
        .InplaceOf("X")
        .Shape(OutLikeInput<0>)
        .Prepare(PrepareUnary<Sqrt>)
        .Grad([](GradContext& g) { g.EmitGrad("sqrt_grad", {}, {"out"}, {"out"}, {"X"}); })
        .Oracle("np.sqrt(X)")
        .Sample("X=[3,17]{0.1,5}")
        .Sample("X=[0,2]")
        .Sample("X=[]{1,2}")
        .Sample("X=[64]{special}")
        .Register();

const bool kSqrtGrad =
    Op("sqrt_grad")
        .Doc("Gradient of sqrt: dout / (2 * out).")
        .In("out", "output of sqrt", kFloats)
        .In("dout", "gradient of out", kFloats)
        .Out("dX", "gradient of X", kFloats)
        .InplaceOf("dout")
        .Shape(OutLikeInput<0>)
        .Prepare(PrepareUnaryGrad<SqrtGrad>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "out", [](GradContext&, const Term& out, const Term& p) -> Term {
            return Scaled(p / out / out, -0.5);
          });
        })
        .Register();

}  // namespace

Term SqrtOf(const Term& x) { return Term("sqrt", {{"X", {x}}}, "out"); }

}  // namespace opstep
