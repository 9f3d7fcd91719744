// hard_sigmoid and hard_swish: sigmoid and silu made of straight lines.
#include "ops/grad/terms.h"
#include "ops/lib/unary_attr.h"

namespace opstep {
namespace {

template <typename T>
struct HardSigmoid {
  HardSigmoid(double alpha, double beta)
      : alpha(static_cast<T>(alpha)), beta(static_cast<T>(beta)) {}
  explicit HardSigmoid(const OpView& op) : HardSigmoid(op.Float("alpha"), op.Float("beta")) {}
  OPSTEP_INLINE T operator()(T x) const {
    const T y = alpha * x + beta;
    return y < T(0) ? T(0) : y > T(1) ? T(1) : y;
  }
  OPSTEP_INLINE T operator()(T x, T d) const {
    const T y = alpha * x + beta;
    return y <= T(0) || y >= T(1) ? T(0) : d * alpha;
  }
  T alpha, beta;
};

template <typename T>
struct HardSwish {
  explicit HardSwish(const OpView&) : hard_sigmoid(1.0 / 6, 0.5) {}
  OPSTEP_INLINE T operator()(T x) const { return x * hard_sigmoid(x); }
  OPSTEP_INLINE T operator()(T x, T d) const {
    return d * hard_sigmoid(x) + x * hard_sigmoid(x, d);
  }
  HardSigmoid<T> hard_sigmoid;
};

const bool kHardSigmoid =
    UnaryOp("hard_sigmoid", "alpha * X + beta, cut to between 0 and 1.", "between 0 and 1")
        .Attr(FloatAttr("alpha", 0.2), "the slope")
        .Attr(FloatAttr("beta", 0.5), "the value at 0")
        .Prepare(PrepareUnaryAttr<HardSigmoid>)
        .Grad(GradFromX)
        .Oracle("np.clip(alpha * X + beta, 0, 1).astype(X.dtype)")
        .Sample("X=[33]{-9,9}")
        .Sample("X=[33]{-9,9} alpha=0.5 beta=0.6")
        .Register();

const bool kHardSwish =
    UnaryOp("hard_swish", "X * hard_sigmoid(X) with alpha 1/6 and beta 1/2.", "from -3/8")
        .Prepare(PrepareUnaryAttr<HardSwish>)
        .Grad(GradFromX)
        .Oracle("(X * np.clip(X / 6 + 0.5, 0, 1)).astype(X.dtype)")
        .Sample("X=[33]{-9,9}")
        .Register();

const bool kHardSigmoidGrad =
    UnaryGradOp("hard_sigmoid_grad",
                "Gradient of hard_sigmoid: dout * alpha where nothing was cut, else 0.", "X")
        .Attr(FloatAttr("alpha", 0.2), "as in the forward op")
        .Attr(FloatAttr("beta", 0.5), "as in the forward op")
        .Prepare(PrepareUnaryAttrGrad<HardSigmoid>)
        .Grad(FlatGradient)
        .Register();
const bool kHardSwishGrad =
    UnaryGradOp("hard_swish_grad",
                "Gradient of hard_swish: dout times 0 below -3, 1 above 3, X / 3 + 1/2 between.",
                "X")
        .Prepare(PrepareUnaryAttrGrad<HardSwish>)
        .Register();

}  // namespace
}  // namespace opstep
