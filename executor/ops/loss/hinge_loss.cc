// hinge_loss: max(0, 1 - X * label), and its gradient.
#include "ops/loss/pair_loss.h"

namespace opstep {
namespace {

template <typename T>
struct Hinge {
  explicit Hinge(const OpView&) {}
  OPSTEP_INLINE T operator()(T x, T y) const {
    const T lack = T(1) - x * y;
    return lack < T(0) ? T(0) : lack;
  }
  OPSTEP_INLINE T X(T x, T y) const { return T(1) - x * y < T(0) ? T(0) : -y; }
  OPSTEP_INLINE T Y(T x, T y) const { return X(y, x); }
};

const bool kHingeLoss =
    PairLossOp<Hinge>("hinge_loss",
                      "The distance of X * label below 1, or 0: max(0, 1 - X * label).",
                      "scores, any shape", "as X: 1 or -1")
        .Oracle("np.maximum(X.dtype.type(0), 1 - X * label)")
        .Sample("X=[3,17] label=[3,17]{1,1}")
        .Sample("X=[3,17] label=[3,17]{-1,-1}")
        .Sample("X=[33]{-3,3} label=[33]")
        .Sample("X=[0,2] label=[0,2]")
        .Sample("X=[] label=[]")
        .Sample("X=float32[64]{special} label=float32[64]{-1,-1}")
        .Register();

const bool kHingeLossGrad =
    PairLossGradOp<Hinge>("hinge_loss_grad",
                          "Gradient of hinge_loss: -dloss * label and -dloss * X where the loss "
                          "is above 0, else 0.")
        .Register();

}  // namespace
}  // namespace opstep
