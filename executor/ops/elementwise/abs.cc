// abs: the absolute value of each element, and its gradient.
#include "ops/grad/terms.h"
#include "ops/lib/numeric.h"
#include "ops/lib/unary.h"

namespace opstep {
namespace {

struct Abs {
  static constexpr Types kTypes = Types::kNumbers;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    if constexpr (std::is_integral_v<T>) {
      return x < 0 ? Minus(T(0), x) : x;
    } else {
      return std::fabs(x);
    }
  }
};

struct AbsGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T d) {
    return x > T(0) ? d : x < T(0) ? -d : T(0) * d;
  }
};

const bool kAbs =
    Op("abs")
        .Doc("The absolute value of each element.")
        .In("X", "any shape", kNumbers)
        .Out("out", "|X|", kNumbers)
        .InplaceOf("X")
        .Shape(OutLikeInput<0>)
        .Prepare(PrepareUnary<Abs>)
        .Grad([](GradContext& g) { g.EmitGrad("abs_grad", {"X"}, {}, {"out"}, {"X"}); })
        .Oracle("np.abs(X)")
        .Sample("X=[3,17]")
        .Sample("X=[0,2]")
        .Sample("X=[]")
        .Sample("X=float32[64]{special}")
        .Register();

const bool kAbsGrad = Op("abs_grad")
                          .Doc("Gradient of abs: dout with the sign of X.")
                          .In("X", "input of abs", kFloats)
                          .In("dout", "gradient of out", kFloats)
                          .Out("dX", "gradient of X", kFloats)
                          .InplaceOf("dout")
                          .Shape(OutLikeInput<0>)
                          .Prepare(PrepareUnaryGrad<AbsGrad>)
                          .Grad(FlatGradient)
                          .Register();

}  // namespace

Term SignedAs(const Term& given, const Term& x) {
  return given ? Term("abs_grad", {{"X", {x}}, {"dout", {given}}}, "dX") : given;
}

}  // namespace opstep
