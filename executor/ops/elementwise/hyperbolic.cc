// sinh, cosh and the inverse hyperbolic functions; tanh is an activation.
#include "ops/grad/terms.h"
#include "ops/lib/elementary_functions.h"
#include "ops/lib/unary_op.h"

namespace opstep {
namespace {

#define OPSTEP_FUNCTION(Name)                       \
  struct Name##Op {                                 \
    static constexpr Types kTypes = Types::kFloats; \
    template <typename T>                           \
    OPSTEP_INLINE static T Do(T x) {                \
      return Name(x);                               \
    }                                               \
  }
OPSTEP_FUNCTION(Sinh);
OPSTEP_FUNCTION(Cosh);
OPSTEP_FUNCTION(Asinh);
OPSTEP_FUNCTION(Acosh);
OPSTEP_FUNCTION(Atanh);
#undef OPSTEP_FUNCTION

struct SinhGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T d) {
    return d * Cosh(x);
  }
};

struct CoshGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T d) {
    return d * Sinh(x);
  }
};

struct AsinhGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T d) {
    return d / std::sqrt(x * x + T(1));
  }
};

struct AcoshGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T d) {
    return d / std::sqrt((x - T(1)) * (x + T(1)));
  }
};

struct AtanhGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T d) {
    return d / ((T(1) - x) * (T(1) + x));
  }
};

const bool kSinh = UnaryOp("sinh", "The hyperbolic sine of each element.", "sinh(X)")
                       .Prepare(PrepareUnary<SinhOp>)
                       .Grad(GradFromX)
                       .Oracle("np.sinh(X)")
                       .Sample("X=float32[999]{-90,90}")
                       .Register();

const bool kCosh = UnaryOp("cosh", "The hyperbolic cosine of each element.", "cosh(X)")
                       .Prepare(PrepareUnary<CoshOp>)
                       .Grad(GradFromX)
                       .Oracle("np.cosh(X)")
                       .Sample("X=float32[999]{-90,90}")
                       .Register();

const bool kAsinh = UnaryOp("asinh", "The inverse hyperbolic sine of each element.", "asinh(X)")
                        .Prepare(PrepareUnary<AsinhOp>)
                        .Grad(GradFromX)
                        .Oracle("np.arcsinh(X)")
                        .Sample("X=float32[999]{-20,20}")
                        .Sample("X=float32[99]{0,1e-3}")
                        .Register();

const bool kAcosh = UnaryOp("acosh", "The inverse hyperbolic cosine of each element: NaN below 1.",
                            "acosh(X)", kFloats, "{1.1,9}")
                        .Prepare(PrepareUnary<AcoshOp>)
                        .Grad(GradFromX)
                        .Oracle("np.arccosh(X)")
                        .Sample("X=float32[999]{1,20}")
                        .Register();

const bool kAtanh =
    UnaryOp("atanh", "The inverse hyperbolic tangent of each element: NaN outside -1 to 1.",
            "atanh(X)", kFloats, "{-0.99,0.99}")
        .Prepare(PrepareUnary<AtanhOp>)
        .Grad(GradFromX)
        .Oracle("np.arctanh(X)")
        .Sample("X=float32[999]{-1,1}")
        .Register();

const bool kSinhGrad =
    UnaryGradOp("sinh_grad", "Gradient of sinh: dout * cosh(X).", "X")
        .Prepare(PrepareUnaryGrad<SinhGrad>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "X", [](GradContext&, const Term& x, const Term& p) -> Term {
            return p * Term("sinh", {{"X", {x}}}, "out");
          });
        })
        .Register();
const bool kCoshGrad =
    UnaryGradOp("cosh_grad", "Gradient of cosh: dout * sinh(X).", "X")
        .Prepare(PrepareUnaryGrad<CoshGrad>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "X", [](GradContext&, const Term& x, const Term& p) -> Term {
            return p * Term("cosh", {{"X", {x}}}, "out");
          });
        })
        .Register();
const bool kAsinhGrad =
    UnaryGradOp("asinh_grad", "Gradient of asinh: dout / sqrt(X ** 2 + 1).", "X")
        .Prepare(PrepareUnaryGrad<AsinhGrad>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "X", [](GradContext& g, const Term& x, const Term& p) -> Term {
            return -Slope(g, x, 3, p * x);
          });
        })
        .Register();
const bool kAcoshGrad =
    UnaryGradOp("acosh_grad", "Gradient of acosh: dout / sqrt(X ** 2 - 1).", "X")
        .Prepare(PrepareUnaryGrad<AcoshGrad>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "X", [](GradContext& g, const Term& x, const Term& p) -> Term {
            return -Slope(g, x, 3, p * x);
          });
        })
        .Register();
const bool kAtanhGrad =
    UnaryGradOp("atanh_grad", "Gradient of atanh: dout / (1 - X ** 2).", "X")
        .Prepare(PrepareUnaryGrad<AtanhGrad>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "X", [](GradContext& g, const Term& x, const Term& p) -> Term {
            return Scaled(Slope(g, x, 2, p * x), 2);
          });
        })
        .Register();

}  // namespace
}  // namespace opstep
