// sin, cos and tan of angles in radians.
// float32 is computed in float64, which needs no care about rounding and is vectorised; the few
// elements beyond kFar need the C library.
#include <bit>
#include <cmath>

#include "ops/grad/terms.h"
#include "ops/lib/unary_op.h"

namespace opstep {
namespace {

constexpr float kFar = 1e6f;

struct Angle {
  // The angle minus `quadrant` quarter turns, between -pi/4 and pi/4.
  double sin, cos;
  int64_t quadrant;
};

OPSTEP_INLINE Angle Reduce(float x) {
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer.
  const double v = x;
  const double shifted = v * 0.63661977236758134 + kRound;
  const double n = shifted - kRound;
  // pi/2 in two parts, of which the first has few enough bits for an exact product.
  const double r = (v - n * 1.57079632673412561) - n * 6.0771005065061922e-11;
  const double z = r * r;
  double s = 2.7181214554e-6;
  s = s * z - 1.9839312252e-4;
  s = s * z + 8.3333293048e-3;
  s = s * z - 1.6666666641e-1;
  double c = 2.4383565387e-5;
  c = c * z - 1.3886681628e-3;
  c = c * z + 4.1666620356e-2;
  c = c * z - 4.9999999694e-1;
  return {s * z * r + r, c * z + 1.0, std::bit_cast<int64_t>(shifted)};
}

OPSTEP_INLINE float SinOfQuadrant(const Angle& a, int64_t quadrant) {
  const double y = (quadrant & 1) != 0 ? a.cos : a.sin;
  return static_cast<float>((quadrant & 2) != 0 ? -y : y);
}

struct Sin {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return std::sin(x);
  }
  OPSTEP_INLINE static float Near(float x) {
    const Angle a = Reduce(x);
    return SinOfQuadrant(a, a.quadrant);
  }
};

struct Cos {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return std::cos(x);
  }
  OPSTEP_INLINE static float Near(float x) {
    const Angle a = Reduce(x);
    return SinOfQuadrant(a, a.quadrant + 1);
  }
};

struct MinusSin {
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return -std::sin(x);
  }
  OPSTEP_INLINE static float Near(float x) { return -Sin::Near(x); }
};

struct Tan {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return std::tan(x);
  }
  OPSTEP_INLINE static float Near(float x) {
    const Angle a = Reduce(x);
    const bool odd = (a.quadrant & 1) != 0;
    return static_cast<float>((odd ? -a.cos : a.sin) / (odd ? a.sin : a.cos));
  }
};

struct TanGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T out, T d) {
    return d * (T(1) + out * out);
  }
};

// dX = dout * F(X).
template <typename F>
struct Chain {
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T d) {
    return d * F::Do(x);
  }
};

// F over float32, times dout in a gradient op.
template <typename F, bool kGrad>
struct Float32Body {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    constexpr int64_t kBlock = 1024;
    const float* x = ctx.in(0).as<float>();
    const float* d = ctx.in(kGrad ? 1 : 0).as<float>();
    float* out = ctx.out(0).as<float>();
    const auto store = [&](int64_t i, float y)
                           OPSTEP_INLINE_LAMBDA { out[i] = kGrad ? d[i] * y : y; };
    for (int64_t start = 0, n = ctx.out(0).numel; start < n; start += kBlock) {
      const int64_t end = std::min(n, start + kBlock);
      int far = 0;
      for (int64_t i = start; i < end; ++i) far |= std::fabs(x[i]) > kFar;
      if (far == 0) {
#pragma GCC ivdep
        for (int64_t i = start; i < end; ++i) store(i, F::Near(x[i]));
      } else {
        for (int64_t i = start; i < end; ++i) {
          store(i, std::fabs(x[i]) > kFar ? F::Do(x[i]) : F::Near(x[i]));
        }
      }
    }
  }
};

template <typename F>
Kernel PrepareTrig(const PrepareContext& ctx) {
  if (ctx.in(0).dtype == DType::kFloat32) return {Best<Float32Body<F, false>>(), nullptr};
  return PrepareUnary<F>(ctx);
}

template <typename F>
Kernel PrepareTrigGrad(const PrepareContext& ctx) {
  if (ctx.in(0).dtype == DType::kFloat32) return {Best<Float32Body<F, true>>(), nullptr};
  return PrepareUnaryGrad<Chain<F>>(ctx);
}

const bool kSin = UnaryOp("sin", "The sine of each element, an angle in radians.", "sin(X)")
                      .Prepare(PrepareTrig<Sin>)
                      .Grad(GradFromX)
                      .Oracle("np.sin(X)")
                      .Sample("X=[999]{-30,30}")
                      .Sample("X=float32[2999]{-2e6,2e6}")
                      .Register();

const bool kCos = UnaryOp("cos", "The cosine of each element, an angle in radians.", "cos(X)")
                      .Prepare(PrepareTrig<Cos>)
                      .Grad(GradFromX)
                      .Oracle("np.cos(X)")
                      .Sample("X=[999]{-30,30}")
                      .Sample("X=float32[2999]{-2e6,2e6}")
                      .Register();

const bool kTan = UnaryOp("tan", "The tangent of each element, an angle in radians.", "tan(X)")
                      .Prepare(PrepareTrig<Tan>)
                      .Grad(GradFromOut)
                      .Oracle("np.tan(X)")
                      .Sample("X=float32[999]{-30,30}")
                      .Sample("X=float32[2999]{-2e6,2e6}")
                      .Register();

const bool kSinGrad =
    UnaryGradOp("sin_grad", "Gradient of sin: dout * cos(X).", "X")
        .Prepare(PrepareTrigGrad<Cos>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "X", [](GradContext&, const Term& x, const Term& p) -> Term {
            return -(p * Term("sin", {{"X", {x}}}, "out"));
          });
        })
        .Register();
const bool kCosGrad =
    UnaryGradOp("cos_grad", "Gradient of cos: -dout * sin(X).", "X")
        .Prepare(PrepareTrigGrad<MinusSin>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "X", [](GradContext&, const Term& x, const Term& p) -> Term {
            return -(p * Term("cos", {{"X", {x}}}, "out"));
          });
        })
        .Register();
const bool kTanGrad =
    UnaryGradOp("tan_grad", "Gradient of tan: dout * (1 + out ** 2).", "out")
        .Prepare(PrepareUnaryGrad<TanGrad>)
        .Grad([](GradContext& g) {
          ElementGradient(g, "out", [](GradContext&, const Term& out, const Term& p) -> Term {
            return Scaled(out * p, 2);
          });
        })
        .Register();

}  // namespace
}  // namespace opstep
