// silu (swish) and mish: X times a smooth step.
#include "ops/grad/formula.h"
#include "ops/lib/numeric.h"
#include "ops/lib/unary_attr.h"

namespace opstep {
namespace {

template <typename T>
struct Silu {
  explicit Silu(const OpView& op) : alpha(static_cast<T>(op.Float("alpha"))) {}
  OPSTEP_INLINE T operator()(T x) const { return x * Sigmoid(alpha * x); }
  OPSTEP_INLINE T operator()(T x, T d) const {
    const T s = Sigmoid(alpha * x);
    return d * (s + alpha * x * (s * (T(1) - s)));
  }
  T alpha;
};

// tanh(softplus(x)), which is (y² - 1) / (y² + 1) for y = 1 + exp(x); written so that nothing
// overflows and no digits are lost.
template <typename T>
OPSTEP_INLINE T TanhOfSoftplus(T x) {
  const T e = Exp(-std::fabs(x));
  const T two_e = e + e;
  const T over = x < T(0) ? e * e + two_e : T(1) + two_e;
  const T rest = x < T(0) ? T(2) : two_e * e;
  return over / (over + rest);
}

struct Mish {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return x * TanhOfSoftplus(x);
  }
};

struct MishGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T d) {
    const T t = TanhOfSoftplus(x);
    return d * (t + x * ((T(1) - t * t) * Sigmoid(x)));
  }
};

const bool kSilu = UnaryOp("silu", "X * sigmoid(alpha * X), also called swish.", "as X")
                       .Attr(FloatAttr("alpha", 1), "how steep the step is")
                       .Prepare(PrepareUnaryAttr<Silu>)
                       .Grad(GradFromX)
                       .Oracle("X / (1 + np.exp(-alpha * X))")
                       .Sample("X=[99]{-30,30}")
                       .Sample("X=[99]{-9,9} alpha=0.3")
                       .Register();

const bool kMish = UnaryOp("mish", "X * tanh(softplus(X)).", "from -0.31")
                       .Prepare(PrepareUnary<Mish>)
                       .Grad(GradFromX)
                       .Oracle("X * np.tanh(np.logaddexp(X.dtype.type(0), X))")
                       .Sample("X=[99]{-30,30}")
                       .Register();

const bool kSiluGrad =
    UnaryGradOp("silu_grad",
                "Gradient of silu: dout * (s + alpha * X * s * (1 - s)), s = sigmoid(alpha * X).",
                "X")
        .Attr(FloatAttr("alpha", 1), "as in the forward op")
        .Prepare(PrepareUnaryAttrGrad<Silu>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "X", [](GradContext& g, const Term& x, const Term& p) -> Term {
            const double alpha = g.op().Float("alpha");
            const Term z = Scaled(x, alpha), s = SigmoidOf(z);
            const Term slope = Scaled(p * (s - s * s), alpha);
            return Scaled(slope, 2) + slope * (z - Scaled(z * s, 2));
          });
        })
        .Register();
const bool kMishGrad = UnaryGradOp("mish_grad",
                                   "Gradient of mish: dout * (t + X * (1 - t ** 2) * sigmoid(X)), "
                                   "t = tanh(softplus(X)).",
                                   "X")
                           .Prepare(PrepareUnaryGrad<MishGrad>)
                           .Grad([](GradContext& g) {
                             const Term x = In(g, "X"), one = Filled(x, 1);
                             // tanh(u) is 2 sigmoid(2 u) - 1.
                             const Term s = SigmoidOf(Scaled(SoftplusOf(x), 2));
                             const Term t = Scaled(s, 2) - one;
                             const Term slope = t + x * (one - t * t) * SigmoidOf(x);
                             FormulaGradient(g, {{"dX", In(g, "dout") * slope}}, {"X", "dout"});
                           })
                           .Register();

}  // namespace
}  // namespace opstep
