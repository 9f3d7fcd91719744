// leaky_relu and thresholded_relu: variants of relu with one parameter.
#include "ops/grad/terms.h"
#include "ops/lib/unary_attr.h"

namespace opstep {
namespace {

template <typename T>
struct LeakyRelu {
  explicit LeakyRelu(const OpView& op) : alpha(static_cast<T>(op.Float("alpha"))) {}
  OPSTEP_INLINE T operator()(T x) const { return x < T(0) ? alpha * x : x; }
  OPSTEP_INLINE T operator()(T x, T d) const { return x < T(0) ? alpha * d : d; }
  T alpha;
};

template <typename T>
struct ThresholdedRelu {
  explicit ThresholdedRelu(const OpView& op) : alpha(static_cast<T>(op.Float("alpha"))) {}
  OPSTEP_INLINE T operator()(T x) const { return x <= alpha ? T(0) : x; }
  OPSTEP_INLINE T operator()(T x, T d) const { return x <= alpha ? T(0) : d; }
  T alpha;
};

const bool kLeakyRelu = UnaryOp("leaky_relu", "X where it is not negative, else alpha * X.", "as X")
                            .Attr(FloatAttr("alpha", 0.01), "the slope of the negative side")
                            .Prepare(PrepareUnaryAttr<LeakyRelu>)
                            .Grad(GradFromX)
                            .Oracle("np.where(X < 0, X * X.dtype.type(alpha), X)")
                            .Sample("X=[33]{-9,9} alpha=0.3")
                            .Sample("X=[33]{-9,9} alpha=-2")
                            .Register();

const bool kThresholdedRelu =
    UnaryOp("thresholded_relu", "X where it is above alpha, else 0.", "as X")
        .Attr(FloatAttr("alpha", 1), "the threshold")
        .Prepare(PrepareUnaryAttr<ThresholdedRelu>)
        .Grad(GradFromX)
        .Oracle("np.where(X <= X.dtype.type(alpha), X.dtype.type(0), X)")
        .Sample("X=[33]{-9,9} alpha=-2.5")
        .Register();

const bool kLeakyReluGrad =
    UnaryGradOp("leaky_relu_grad", "Gradient of leaky_relu: dout, times alpha where X is negative.",
                "X")
        .Attr(FloatAttr("alpha", 0.01), "as in the forward op")
        .Prepare(PrepareUnaryAttrGrad<LeakyRelu>)
        .Grad(FlatGradient)
        .Register();
const bool kThresholdedReluGrad =
    UnaryGradOp("thresholded_relu_grad",
                "Gradient of thresholded_relu: dout where X is above alpha, else 0.", "X")
        .Attr(FloatAttr("alpha", 1), "as in the forward op")
        .Prepare(PrepareUnaryAttrGrad<ThresholdedRelu>)
        .Grad(FlatGradient)
        .Register();

}  // namespace
}  // namespace opstep
