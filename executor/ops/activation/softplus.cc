// softplus and softsign: smooth relatives of relu and tanh.
#include "ops/grad/formula.h"
#include "ops/lib/elementary_functions.h"
#include "ops/lib/unary_op.h"

namespace opstep {
namespace {

struct Softplus {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return Log1pExp(x);
  }
};

struct SoftplusGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T d) {
    return d * Sigmoid(x);
  }
};

struct Softsign {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return x / (T(1) + std::fabs(x));
  }
};

struct SoftsignGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T d) {
    const T a = T(1) + std::fabs(x);
    return d / (a * a);
  }
};

const bool kSoftplus = UnaryOp("softplus", "log(1 + exp(X)), a smooth relu.", "above 0")
                           .Prepare(PrepareUnary<Softplus>)
                           .Grad(GradFromX)
                           .Oracle("np.logaddexp(X.dtype.type(0), X)")
                           .Sample("X=[99]{-30,30}")
                           .Sample("X=[99]{-200,200}")
                           .Register();

const bool kSoftsign = UnaryOp("softsign", "X / (1 + |X|).", "between -1 and 1")
                           .Prepare(PrepareUnary<Softsign>)
                           .Grad(GradFromX)
                           .Oracle("X / (1 + np.abs(X))")
                           .Sample("X=[99]{-30,30}")
                           .Register();

const bool kSoftplusGrad =
    UnaryGradOp("softplus_grad", "Gradient of softplus: dout * sigmoid(X).", "X")
        .Prepare(PrepareUnaryGrad<SoftplusGrad>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "X", [](GradContext& g, const Term& x, const Term& p) -> Term {
            return Slope(g, x, 1, p) - Slope(g, x, 2, p);
          });
        })
        .Register();
const bool kSoftsignGrad =
    UnaryGradOp("softsign_grad", "Gradient of softsign: dout / (1 + |X|) ** 2.", "X")
        .Prepare(PrepareUnaryGrad<SoftsignGrad>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "X", [](GradContext& g, const Term& x, const Term& p) -> Term {
            const Term size = SignedAs(x, x) + Filled(x, 1);
            return Scaled(SignedAs(Slope(g, x, 1, p), x) / size, -2);
          });
        })
        .Register();

}  // namespace

Term SoftplusOf(const Term& x) { return Term("softplus", {{"X", {x}}}, "out"); }

}  // namespace opstep
