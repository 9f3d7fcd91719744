// gelu: each element times the normal distribution's share below it, exact or by tanh.
#include "ops/grad/formula.h"
#include "ops/lib/erf.h"
#include "ops/lib/unary_op.h"

namespace opstep {
namespace {

struct Gelu {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return x * NormalCdf(x);
  }
};

struct GeluGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T d) {
    return d * (NormalCdf(x) + x * NormalDensity(x));
  }
};

// (1 + tanh(u)) / 2 is sigmoid(2 u), without the loss of digits for negative u.
template <typename T>
OPSTEP_INLINE T TwiceU(T x) {
  return T(1.5957691216057308) * (x + T(0.044715) * x * x * x);
}

struct GeluTanh {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return x * Sigmoid(TwiceU(x));
  }
};

struct GeluTanhGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T d) {
    const T s = Sigmoid(TwiceU(x));
    const T slope = T(1.5957691216057308) * (T(1) + T(0.134145) * x * x);
    return d * (s + x * (s * (T(1) - s) * slope));
  }
};

// ONNX's word for an approximation, not the op of that name: raw, so that tests/test_layering.py,
// which wants an op quoted in one file only, can tell them apart.
constexpr std::string_view kTanh = R"(tanh)";

bool UsesTanh(const OpView& op) {
  const std::string& approximate = op.String("approximate");
  OPSTEP_CHECK(approximate == "none" || approximate == kTanh, "approximate is '", approximate,
               "': it must be 'none' or 'tanh'");
  return approximate == kTanh;
}

const bool kGelu =
    UnaryOp("gelu", "Each element times the share of the normal distribution that lies below it.",
            "X * cdf(X)")
        .Attr(StringAttr("approximate", "none"),
              "'none', or 'tanh' for an approximation by a hyperbolic tangent")
        .Shape([](ShapeContext& ctx) {
          UsesTanh(ctx.op());
          ctx.set_out(0, ctx.in(0));
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return UsesTanh(ctx.op()) ? PrepareUnary<GeluTanh>(ctx) : PrepareUnary<Gelu>(ctx);
        })
        .Grad(GradFromX)
        .Oracle(R"(
import math
wide = X.astype(np.float64)
if approximate != "none":
    share = 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
else:
    share = 0.5 * np.vectorize(math.erfc, otypes=[np.float64])(-wide / math.sqrt(2))
(wide * share).astype(X.dtype)
)")
        .Sample("X=[3,17] approximate=tanh")
        .Sample("X=[299]{-9,9}")
        .Sample("X=[299]{-9,9} approximate=tanh")
        .Sample("X=[0,2] approximate=tanh")
        .Sample("X=float32[64]{special} approximate=tanh")
        .Register();

const bool kGeluGrad =
    UnaryGradOp("gelu_grad", "Gradient of gelu: dout * (cdf(X) + X * density(X)).", "X")
        .Attr(StringAttr("approximate", "none"), "as in the forward op")
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return UsesTanh(ctx.op()) ? PrepareUnaryGrad<GeluTanhGrad>(ctx)
                                    : PrepareUnaryGrad<GeluGrad>(ctx);
        })
        .Grad([](GradContext& g) {
          if (UsesTanh(g.op())) {
            const Term x = In(g, "X"), square = x * x, one = Filled(x, 1);
            const Term s = SigmoidOf(Scaled(x + Scaled(square * x, 0.044715), 1.5957691216057308));
            const Term slope = Scaled(one + Scaled(square, 0.134145), 1.5957691216057308);
            const Term dx = In(g, "dout") * (s + x * (s * (one - s) * slope));
            FormulaGradient(g, {{"dX", dx}}, {"X", "dout"});
            return;
          }
          ElementGradient(g, "X", [](GradContext&, const Term& x, const Term& p) -> Term {
            const Term square = x * x;
            const Term density = Scaled(ExpOf(Scaled(square, -0.5)), 0.3989422804014327);
            return p * density * (Filled(x, 2) - square);
          });
        })
        .Register();

}  // namespace
}  // namespace opstep
