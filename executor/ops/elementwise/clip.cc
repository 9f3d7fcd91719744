// clip: each element moved to the nearest value between min and max, and its gradient.
#include <limits>

#include "ops/grad/terms.h"
#include "ops/lib/numeric.h"
#include "ops/lib/unary_attr.h"

namespace opstep {
namespace {

// A bound as T: the nearest value that lies inside the bound.
template <typename T>
T Bound(double bound, bool lower) {
  if constexpr (std::is_integral_v<T>) {
    const double whole = lower ? std::ceil(bound) : std::floor(bound);
    // The limits as doubles may be rounded to values that T cannot hold.
    if (whole >= static_cast<double>(std::numeric_limits<T>::max())) {
      return std::numeric_limits<T>::max();
    }
    if (whole <= static_cast<double>(std::numeric_limits<T>::min())) {
      return std::numeric_limits<T>::min();
    }
    return static_cast<T>(whole);
  } else {
    return static_cast<T>(bound);
  }
}

template <typename T>
struct Clip {
  explicit Clip(const OpView& op)
      : low(Bound<T>(op.Float("min"), true)), high(Bound<T>(op.Float("max"), false)) {}
  OPSTEP_INLINE T operator()(T x) const {
    const T raised = x < low ? low : x;
    return raised > high ? high : raised;
  }
  T low, high;
};

template <typename T>
struct ClipGrad : Clip<T> {
  using Clip<T>::Clip;
  OPSTEP_INLINE T operator()(T x, T d) const { return x < this->low || x > this->high ? T(0) : d; }
};

constexpr double kInf = std::numeric_limits<double>::infinity();

const bool kClip =
    UnaryOp("clip", "Each element, moved to the nearest value between min and max.",
            "between min and max", kNumbers)
        .Attr(FloatAttr("min", -kInf), "the smallest value")
        .Attr(FloatAttr("max", kInf), "the largest value; it wins when min is larger")
        .Prepare(PrepareUnaryAttr<Clip, Types::kNumbers>)
        .Grad(GradFromX)
        .Oracle(R"(
exact = X.astype(np.float64) if X.dtype.kind == "f" else X.astype(object)
np.minimum(np.maximum(exact, min), max).astype(X.dtype)
)")
        .Sample("X=[3,17] min=-1 max=1")
        .Sample("X=[17]{-9,9} max=0")
        .Sample("X=[17]{-9,9} min=2")
        .Sample("X=[4] min=5 max=2")
        .Sample("X=float32[64]{special} min=-1.5 max=2")
        .Sample("X=int64[17]{-9,9} min=-1e30 max=1e30")
        .Register();

const bool kClipGrad =
    UnaryGradOp("clip_grad", "Gradient of clip: dout where X is between min and max, else 0.", "X")
        .Attr(FloatAttr("min", -kInf), "as in the forward op")
        .Attr(FloatAttr("max", kInf), "as in the forward op")
        .Prepare(PrepareUnaryAttrGrad<ClipGrad>)
        .Grad(FlatGradient)
        .Register();

}  // namespace
}  // namespace opstep
