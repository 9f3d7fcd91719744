// div: X / Y with broadcasting, its gradient, and the quotient of two gradient terms.
#include "ops/grad/terms.h"
#include "ops/lib/binary.h"

namespace opstep {
namespace {

struct Div {
  static constexpr Types kTypes = Types::kNumbers;
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T y) {
    if constexpr (std::is_integral_v<T>) {
      OPSTEP_CHECK(y != 0, "Y holds a 0: integers cannot be divided by it");
      // The smallest integer has no opposite: it wraps.
      return y == T(-1) ? Minus(T(0), x) : static_cast<T>(x / y);
    } else {
      return x / y;
    }
  }
};

struct DivGrad {
  static constexpr bool kNeedsX = false, kNeedsY = true, kNeedsOut = true;
  template <typename T>
  OPSTEP_INLINE static T X([[maybe_unused]] T x, [[maybe_unused]] T y, [[maybe_unused]] T out,
                           T d) {
    return d / y;
  }
  template <typename T>
  OPSTEP_INLINE static T Y([[maybe_unused]] T x, [[maybe_unused]] T y, [[maybe_unused]] T out,
                           T d) {
    return -d * out / y;
  }
};

const bool kDiv =
    BinaryOp<Div>(
        "div", "Divides X by Y element by element, with broadcasting; integers are cut towards 0.",
        "X / Y")
        .Grad([](GradContext& g) {
          g.EmitGrad("div_grad", {"X", "Y"}, {"out"}, {"out"}, {"X", "Y"});
        })
        .Oracle(
            "X / Y if X.dtype.kind == 'f' else (np.sign(X) * np.sign(Y) * (abs(X) // "
            "abs(Y))).astype(X.dtype)")
        .Sample("X=[3,17] Y=[3,17]{1,9}")
        .Sample("X=[7,17] Y=[17]{1,3}")
        .Sample("X=[4,33] Y=[4,1]{-4,-1}")
        .Sample("X=[2,1,5] Y=[3,1]{1,2}")
        .Sample("X=[] Y=[4]{1,2}")
        .Sample("X=[0,3] Y=[3]{1,2}")
        .Sample("X=float32[64]{special} Y=float32[8,1]{special}")
        .Register();

const bool kDivGrad =
    BinaryGradOp<DivGrad>(
        "div_grad",
        "Gradient of div: dout / Y and -dout * out / Y, summed over the broadcast dimensions.")
        .Grad([](GradContext& g) {
          const Term y = In(g, "Y"), out = In(g, "out"), dout = In(g, "dout");
          const Term dx = OutGradient(g, "dX"), dy = OutGradient(g, "dY");
          const Term change = (dx - dy * out) / y;
          Give(g, "dout", change);
          Give(g, "out", -(dy * dout / y));
          Give(g, "Y",
               Again(g, {{"X", {In(g, "X")}}, {"Y", {y}}, {"out", {change}}, {"dout", {dout}}},
                     "dY"));
        })
        .Register();

}  // namespace

Term operator/(const Term& x, const Term& y) {
  return x ? Term("div", {{"X", {x}}, {"Y", {y}}}, "out") : x;
}

}  // namespace opstep
