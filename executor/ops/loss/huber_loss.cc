// huber_loss and smooth_l1_loss: a parabola for small differences, straight lines for large ones.
#include "ops/loss/pair_loss.h"

namespace opstep {
namespace {

// A parabola for small differences and straight lines for large ones; and the same with slope 1.

template <typename T>
struct Huber {
  Huber(double limit, double scale)
      : limit(static_cast<T>(limit)),
        scale(static_cast<T>(scale)),
        half_over(static_cast<T>(limit / 2)) {}
  explicit Huber(const OpView& op) : Huber(op.Float("delta"), 1) {}
  OPSTEP_INLINE T operator()(T x, T y) const {
    const T a = std::fabs(x - y);
    return scale * (a > limit ? limit * (a - half_over) : T(0.5) * a * a);
  }
  OPSTEP_INLINE T X(T x, T y) const {
    const T e = x - y;
    return scale * (e > limit ? limit : e < -limit ? -limit : e);
  }
  OPSTEP_INLINE T Y(T x, T y) const { return -X(x, y); }
  T limit, scale, half_over;
};

template <typename T>
struct SmoothL1 : Huber<T> {
  explicit SmoothL1(const OpView& op) : Huber<T>(op.Float("beta"), 1 / op.Float("beta")) {}
};

// The attribute must be positive.
template <const char* kName>
void ShapeWithLimit(ShapeContext& ctx) {
  const double limit = ctx.op().Float(kName);
  OPSTEP_CHECK(limit > 0, kName, " is ", limit, ": it must be above 0");
  PairLossShape(ctx);
}

constexpr char kDelta[] = "delta";
constexpr char kBeta[] = "beta";

Op WithSamples(Op op) {
  op.Sample("X=[3,17] label=[3,17]")
      .Sample("X=[0,2] label=[0,2]")
      .Sample("X=[] label=[]")
      .Sample("X=float32[64]{special} label=float32[64]");
  return op;
}

const bool kHuberLoss =
    WithSamples(PairLossOp<Huber>(
                    "huber_loss",
                    "Half the square of X - label where that is up to delta, else delta * (|X - "
                    "label| - delta / 2).",
                    "any shape", "as X"))
        .Attr(FloatAttr("delta", 1), "where the parabola ends")
        .Shape(ShapeWithLimit<kDelta>)
        .Oracle(R"(
a = np.abs(X - label)
np.where(a > delta, delta * (a - delta / 2), 0.5 * a * a).astype(X.dtype)
)")
        .Sample("X=[33] label=[33] delta=0.3")
        .Sample("X=[33]{-9,9} label=[33] delta=3")
        .Register();

const bool kSmoothL1Loss =
    WithSamples(PairLossOp<SmoothL1>(
                    "smooth_l1_loss",
                    "|X - label| - beta / 2 where the difference is above beta, else half its "
                    "square divided by beta.",
                    "any shape", "as X"))
        .Attr(FloatAttr("beta", 1), "where the parabola ends")
        .Shape(ShapeWithLimit<kBeta>)
        .Oracle(R"(
a = np.abs(X - label)
np.where(a > beta, a - beta / 2, 0.5 * a * a / beta).astype(X.dtype)
)")
        .Sample("X=[33] label=[33] beta=0.3")
        .Sample("X=[33]{-9,9} label=[33] beta=3")
        .Register();

const bool kHuberLossGrad =
    PairLossGradOp<Huber>("huber_loss_grad",
                          "Gradient of huber_loss: dloss * (X - label), cut to between -delta and "
                          "delta; and its opposite.")
        .Attr(FloatAttr("delta", 1), "as in the forward op")
        .Register();
const bool kSmoothL1LossGrad =
    PairLossGradOp<SmoothL1>("smooth_l1_loss_grad",
                             "Gradient of smooth_l1_loss: dloss * (X - label) / beta, cut to "
                             "between -1 and 1; and its opposite.")
        .Attr(FloatAttr("beta", 1), "as in the forward op")
        .Register();

}  // namespace
}  // namespace opstep
