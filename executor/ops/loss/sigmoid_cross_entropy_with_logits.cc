// The cross entropy between sigmoid(X) and label, each element a yes-or-no question.
#include "ops/grad/terms.h"
#include "ops/lib/elementary_functions.h"
#include "ops/loss/pair_loss.h"

namespace opstep {
namespace {

template <typename T>
struct SigmoidCrossEntropy {
  explicit SigmoidCrossEntropy(const OpView&) {}
  OPSTEP_INLINE T operator()(T x, T y) const { return Log1pExp(x) - x * y; }
  OPSTEP_INLINE T X(T x, T y) const { return Sigmoid(x) - y; }
  OPSTEP_INLINE T Y(T x, T) const { return -x; }
};

const bool kLoss =
    PairLossOp<SigmoidCrossEntropy>(
        "sigmoid_cross_entropy_with_logits",
        "The cross entropy between sigmoid(X) and label, each element a yes-or-no question.",
        "logits, any shape", "as X: the probability of yes")
        .Oracle("np.logaddexp(X.dtype.type(0), X) - X * label")
        .Sample("X=[3,17] label=[3,17]{0,1}")
        .Sample("X=[99]{-30,30} label=[99]{0,1}")
        .Sample("X=[0,2] label=[0,2]")
        .Sample("X=[] label=[]")
        .Sample("X=float32[64]{special} label=float32[64]{0.2,0.8}")
        .Register();

const bool kLossGrad =
    PairLossGradOp<SigmoidCrossEntropy>(
        "sigmoid_cross_entropy_with_logits_grad",
        "Gradient of sigmoid_cross_entropy_with_logits: dloss * (sigmoid(X) - label) and "
        "-dloss * X.")
        .Grad([](GradContext& g) {
          const Term x = In(g, "X"), dloss = In(g, "dloss"), s = SigmoidOf(x);
          const Term dx = OutGradient(g, "dX"), dlabel = OutGradient(g, "dlabel");
          Give(g, "dloss", dx * (s - In(g, "label")) - dlabel * x);
          Give(g, "X", dx * dloss * (s - s * s) - dlabel * dloss);
          Give(g, "label", -(dx * dloss));
        })
        .Register();

}  // namespace
}  // namespace opstep
