// square, reciprocal and rsqrt: powers with the fixed exponents 2, -1 and -1/2.
#include "ops/grad/terms.h"
#include "ops/lib/numeric.h"
#include "ops/lib/unary_op.h"

namespace opstep {
namespace {

struct Square {
  static constexpr Types kTypes = Types::kNumbers;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return Times(x, x);
  }
};

struct SquareGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T d) {
    return d * (x + x);
  }
};

struct Reciprocal {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return T(1) / x;
  }
};

struct ReciprocalGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T out, T d) {
    return -d * out * out;
  }
};

struct Rsqrt {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return T(1) / std::sqrt(x);
  }
};

struct RsqrtGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T out, T d) {
    return T(-0.5) * d * (out * out * out);
  }
};

const bool kSquare = UnaryOp("square", "The square of each element.", "X * X", kNumbers)
                         .Prepare(PrepareUnary<Square>)
                         .Grad(GradFromX)
                         .Oracle("X * X")
                         .Register();

const bool kReciprocal =
    UnaryOp("reciprocal", "1 divided by each element.", "1 / X", kFloats, "{0.2,3}")
        .Prepare(PrepareUnary<Reciprocal>)
        .Grad(GradFromOut)
        .Oracle("1 / X")
        .Sample("X=[5]{-3,-0.2}")
        .Register();

const bool kRsqrt = UnaryOp("rsqrt", "1 divided by the square root of each element: NaN below 0.",
                            "1 / sqrt(X)", kFloats, "{0.2,9}")
                        .Prepare(PrepareUnary<Rsqrt>)
                        .Grad(GradFromOut)
                        .Oracle("1 / np.sqrt(X)")
                        .Register();

const bool kSquareGrad =
    UnaryGradOp("square_grad", "Gradient of square: dout * 2 * X.", "X")
        .Prepare(PrepareUnaryGrad<SquareGrad>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "X", [](GradContext&, const Term&, const Term& p) -> Term {
            return Scaled(p, 2);
          });
        })
        .Register();
const bool kReciprocalGrad =
    UnaryGradOp("reciprocal_grad", "Gradient of reciprocal: -dout * out ** 2.", "out")
        .Prepare(PrepareUnaryGrad<ReciprocalGrad>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "out", [](GradContext&, const Term& out, const Term& p) -> Term {
            return Scaled(out * p, -2);
          });
        })
        .Register();
const bool kRsqrtGrad =
    UnaryGradOp("rsqrt_grad", "Gradient of rsqrt: -dout * out ** 3 / 2.", "out")
        .Prepare(PrepareUnaryGrad<RsqrtGrad>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "out", [](GradContext&, const Term& out, const Term& p) -> Term {
            return Scaled(out * out * p, -1.5);
          });
        })
        .Register();

}  // namespace
}  // namespace opstep
