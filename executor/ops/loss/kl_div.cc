// kl_div: the divergence of the distribution X from label, and its gradient.
#include "ops/loss/pair_loss.h"

namespace opstep {
namespace {

template <typename T>
struct KlDiv {
  explicit KlDiv(const OpView&) {}
  OPSTEP_INLINE T operator()(T x, T y) const {
    const T term = y * (Log(y) - x);
    return y == T(0) ? T(0) : term;
  }
  OPSTEP_INLINE T X(T, T y) const { return -y; }
  OPSTEP_INLINE T Y(T x, T y) const { return Log(y) + T(1) - x; }
};

// The same with logarithms as labels.
template <typename T>
struct KlDivOfLog {
  explicit KlDivOfLog(const OpView&) {}
  OPSTEP_INLINE T operator()(T x, T y) const { return Exp(y) * (y - x); }
  OPSTEP_INLINE T X(T, T y) const { return -Exp(y); }
  OPSTEP_INLINE T Y(T x, T y) const { return Exp(y) * (y - x + T(1)); }
};

const bool kKlDiv =
    PairLossOp<KlDiv>("kl_div",
                      "The terms of the Kullback-Leibler divergence of the distribution whose "
                      "logarithm is X from label: label * (log(label) - X), 0 where label is 0.",
                      "log-probabilities, any shape", "as X: probabilities")
        .Attr(BoolAttr("log_target", false), "label holds log-probabilities too")
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return ctx.op().Bool("log_target") ? PreparePairLoss<KlDivOfLog, PairLossBody>(ctx)
                                             : PreparePairLoss<KlDiv, PairLossBody>(ctx);
        })
        .Oracle(R"(
if log_target:
    loss = np.exp(label) * (label - X)
else:
    loss = np.where(label == 0, X.dtype.type(0), label * (np.log(label) - X))
loss
)")
        .Sample("X=[3,17]{-4,0} label=[3,17]{0.01,1}")
        .Sample("X=[3,17]{-4,0} label=[3,17]{-4,0} log_target=True")
        .Sample("X=float32[64]{special} label=float32[64]{0,0}")
        .Sample("X=[0,2] label=[0,2]")
        .Sample("X=[]{-4,0} label=[]{0.01,1}")
        .Register();

const bool kKlDivGrad =
    PairLossGradOp<KlDiv>("kl_div_grad",
                          "Gradient of kl_div: -dloss * label and dloss * (log(label) + 1 - X).")
        .Attr(BoolAttr("log_target", false), "as in the forward op")
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return ctx.op().Bool("log_target") ? PreparePairLoss<KlDivOfLog, PairLossGradBody>(ctx)
                                             : PreparePairLoss<KlDiv, PairLossGradBody>(ctx);
        })
        .Register();

}  // namespace
}  // namespace opstep
