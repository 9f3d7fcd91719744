// elu, selu and celu: a straight line for positive elements, an exponential for the others.
#include "ops/grad/terms.h"
#include "ops/lib/elementary_functions.h"
#include "ops/lib/unary_attr.h"

namespace opstep {
namespace {

template <typename T>
struct ExpLinear {
  ExpLinear(double slope, double weight, double rate)
      : slope(static_cast<T>(slope)),
        weight(static_cast<T>(weight)),
        rate(static_cast<T>(rate)),
        start(static_cast<T>(weight * rate)) {}
  OPSTEP_INLINE T operator()(T x) const {
    const T below = weight * Expm1(x * rate);
    return x > T(0) ? slope * x : below;
  }
  OPSTEP_INLINE T operator()(T x, T d) const {
    const T below = start * Exp(x * rate);
    return d * (x > T(0) ? slope : below);
  }
  T slope, weight, rate;
  // The slope of the exponential at 0.
  T start;
};

template <typename T>
struct Elu : ExpLinear<T> {
  explicit Elu(const OpView& op) : ExpLinear<T>(1, op.Float("alpha"), 1) {}
};

template <typename T>
struct Selu : ExpLinear<T> {
  explicit Selu(const OpView& op)
      : ExpLinear<T>(op.Float("gamma"), op.Float("gamma") * op.Float("alpha"), 1) {}
};

template <typename T>
struct Celu : ExpLinear<T> {
  explicit Celu(const OpView& op) : ExpLinear<T>(1, op.Float("alpha"), 1 / op.Float("alpha")) {}
};

constexpr double kSeluAlpha = 1.67326319217681884765625;
constexpr double kSeluGamma = 1.05070102214813232421875;

const bool kElu =
    UnaryOp("elu", "X where it is positive, else alpha * (exp(X) - 1).", "above -alpha")
        .Attr(FloatAttr("alpha", 1), "how deep it goes below 0")
        .Prepare(PrepareUnaryAttr<Elu>)
        .Grad(GradFromX)
        .Oracle("np.where(X > 0, X, (alpha * np.expm1(X)).astype(X.dtype))")
        .Sample("X=[33]{-9,9} alpha=0.5")
        .Sample("X=[33]{-1e-2,1e-2}")
        .Register();

const bool kSelu =
    UnaryOp("selu", "gamma * (X where it is positive, else alpha * (exp(X) - 1)).",
            "above -alpha * gamma")
        .Attr(FloatAttr("alpha", kSeluAlpha), "how deep it goes below 0")
        .Attr(FloatAttr("gamma", kSeluGamma), "a factor of everything")
        .Prepare(PrepareUnaryAttr<Selu>)
        .Grad(GradFromX)
        .Oracle("np.where(X > 0, gamma * X, gamma * alpha * np.expm1(X)).astype(X.dtype)")
        .Sample("X=[33]{-9,9} alpha=0.5 gamma=2")
        .Register();

const bool kCelu =
    UnaryOp("celu", "X where it is positive, else alpha * (exp(X / alpha) - 1).", "above -alpha")
        .Attr(FloatAttr("alpha", 1), "how deep it goes below 0, and how slowly; not 0")
        .Shape([](ShapeContext& ctx) {
          OPSTEP_CHECK(ctx.op().Float("alpha") != 0, "alpha is 0: X is divided by it");
          ctx.set_out(0, ctx.in(0));
        })
        .Prepare(PrepareUnaryAttr<Celu>)
        .Grad(GradFromX)
        .Oracle("np.where(X > 0, X, alpha * np.expm1(X / alpha)).astype(X.dtype)")
        .Sample("X=[33]{-9,9} alpha=0.5")
        .Sample("X=[33]{-9,9} alpha=3")
        .Register();

const bool kEluGrad =
    UnaryGradOp("elu_grad",
                "Gradient of elu: dout where X is positive, else dout * alpha * exp(X).", "X")
        .Attr(FloatAttr("alpha", 1), "as in the forward op")
        .Prepare(PrepareUnaryAttrGrad<Elu>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "X", [](GradContext& g, const Term& x, const Term& p) -> Term {
            return Slope(g, x, 1, p) - WherePositive(x, Slope(g, x, 1, p));
          });
        })
        .Register();
const bool kSeluGrad =
    UnaryGradOp("selu_grad",
                "Gradient of selu: dout * gamma, times alpha * exp(X) where X is not positive.",
                "X")
        .Attr(FloatAttr("alpha", kSeluAlpha), "as in the forward op")
        .Attr(FloatAttr("gamma", kSeluGamma), "as in the forward op")
        .Prepare(PrepareUnaryAttrGrad<Selu>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "X", [](GradContext& g, const Term& x, const Term& p) -> Term {
            return Slope(g, x, 1, p) - WherePositive(x, Slope(g, x, 1, p));
          });
        })
        .Register();
const bool kCeluGrad =
    UnaryGradOp("celu_grad",
                "Gradient of celu: dout where X is positive, else dout * exp(X / alpha).", "X")
        .Attr(FloatAttr("alpha", 1), "as in the forward op")
        .Prepare(PrepareUnaryAttrGrad<Celu>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "X", [](GradContext& g, const Term& x, const Term& p) -> Term {
            const Term slope = Slope(g, x, 1, p);
            return Scaled(slope - WherePositive(x, slope), 1 / g.op().Float("alpha"));
          });
        })
        .Register();

}  // namespace
}  // namespace opstep
