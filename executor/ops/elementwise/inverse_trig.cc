// asin, acos and atan: the inverse trigonometric functions, angles in radians.
#include "ops/grad/terms.h"
#include "ops/lib/elementary_functions.h"
#include "ops/lib/unary_op.h"

namespace opstep {
namespace {

struct AsinOp {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return Asin(x);
  }
};

struct AsinOpGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T d) {
    return d / std::sqrt((T(1) - x) * (T(1) + x));
  }
};

struct AcosOp {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return Acos(x);
  }
};

struct AcosOpGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T d) {
    return -AsinOpGrad::Do(x, d);
  }
};

struct AtanOp {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return Atan(x);
  }
};

struct AtanOpGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T d) {
    return d / (T(1) + x * x);
  }
};

const bool kAsin = UnaryOp("asin", "The inverse sine of each element: NaN outside -1 to 1.",
                           "between -pi/2 and pi/2", kFloats, "{-0.99,0.99}")
                       .Prepare(PrepareUnary<AsinOp>)
                       .Grad(GradFromX)
                       .Oracle("np.arcsin(X)")
                       .Sample("X=float32[999]{-1,1}")
                       .Register();

const bool kAcos = UnaryOp("acos", "The inverse cosine of each element: NaN outside -1 to 1.",
                           "between 0 and pi", kFloats, "{-0.99,0.99}")
                       .Prepare(PrepareUnary<AcosOp>)
                       .Grad(GradFromX)
                       .Oracle("np.arccos(X)")
                       .Sample("X=float32[999]{-1,1}")
                       .Register();

const bool kAtan = UnaryOp("atan", "The inverse tangent of each element.", "between -pi/2 and pi/2")
                       .Prepare(PrepareUnary<AtanOp>)
                       .Grad(GradFromX)
                       .Oracle("np.arctan(X)")
                       .Sample("X=float32[999]{-5,5}")
                       .Register();

const bool kAsinGrad =
    UnaryGradOp("asin_grad", "Gradient of asin: dout / sqrt(1 - X ** 2).", "X")
        .Prepare(PrepareUnaryGrad<AsinOpGrad>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "X", [](GradContext& g, const Term& x, const Term& p) -> Term {
            return Slope(g, x, 3, p * x);
          });
        })
        .Register();
const bool kAcosGrad =
    UnaryGradOp("acos_grad", "Gradient of acos: -dout / sqrt(1 - X ** 2).", "X")
        .Prepare(PrepareUnaryGrad<AcosOpGrad>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "X", [](GradContext& g, const Term& x, const Term& p) -> Term {
            return Slope(g, x, 3, p * x);
          });
        })
        .Register();
const bool kAtanGrad =
    UnaryGradOp("atan_grad", "Gradient of atan: dout / (1 + X ** 2).", "X")
        .Prepare(PrepareUnaryGrad<AtanOpGrad>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "X", [](GradContext& g, const Term& x, const Term& p) -> Term {
            return Scaled(Slope(g, x, 2, p * x), -2);
          });
        })
        .Register();

}  // namespace
}  // namespace opstep
