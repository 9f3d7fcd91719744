#include "ops/numeric.h"
#include "ops/unary_op.h"

namespace opstep {
namespace {

// X times a smooth step.

struct Silu {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return x * Sigmoid(x);
  }
};

struct SiluGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T d) {
    const T s = Sigmoid(x);
    return d * (s + x * (s * (T(1) - s)));
  }
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

const bool kSilu = UnaryOp("silu", "X * sigmoid(X), also called swish.", "from -0.28")
                       .Prepare(PrepareUnary<Silu>)
                       .Grad(GradFromX)
                       .Oracle("X / (1 + np.exp(-X))")
                       .Sample("X=[99]{-30,30}")
                       .Register();

const bool kMish = UnaryOp("mish", "X * tanh(softplus(X)).", "from -0.31")
                       .Prepare(PrepareUnary<Mish>)
                       .Grad(GradFromX)
                       .Oracle("X * np.tanh(np.logaddexp(X.dtype.type(0), X))")
                       .Sample("X=[99]{-30,30}")
                       .Register();

const bool kSiluGrad =
    UnaryGradOp("silu_grad", "Gradient of silu: dout * (s + X * s * (1 - s)), s = sigmoid(X).", "X")
        .Prepare(PrepareUnaryGrad<SiluGrad>)
        .Register();
const bool kMishGrad = UnaryGradOp("mish_grad",
                                   "Gradient of mish: dout * (t + X * (1 - t ** 2) * sigmoid(X)), "
                                   "t = tanh(softplus(X)).",
                                   "X")
                           .Prepare(PrepareUnaryGrad<MishGrad>)
                           .Register();

}  // namespace
}  // namespace opstep
