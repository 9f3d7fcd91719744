// pow: X to the power of Y with broadcasting, and its gradient.
#include "ops/grad/terms.h"
#include "ops/lib/binary.h"

namespace opstep {
namespace {

template <typename T>
T IntPow(T base, T exponent) {
  OPSTEP_CHECK(exponent >= 0, "Y holds ", exponent,
               ": integers have no negative powers; cast X and Y to a float dtype");
  T result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result = Times(result, base);
    base = Times(base, base);
  }
  return result;
}

struct Pow {
  static constexpr Types kTypes = Types::kNumbers;
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T y) {
    if constexpr (std::is_integral_v<T>) {
      return IntPow(x, y);
    } else {
      return std::pow(x, y);
    }
  }
};

struct PowGrad {
  static constexpr bool kNeedsX = true, kNeedsY = true, kNeedsOut = true;
  template <typename T>
  OPSTEP_INLINE static T X([[maybe_unused]] T x, [[maybe_unused]] T y, [[maybe_unused]] T out,
                           T d) {
    return y == T(0) ? T(0) : d * (y * std::pow(x, y - T(1)));
  }
  template <typename T>
  OPSTEP_INLINE static T Y([[maybe_unused]] T x, [[maybe_unused]] T y, [[maybe_unused]] T out,
                           T d) {
    // 0 ** y is constant for positive y, although log(0) is infinite.
    return x == T(0) && y >= T(0) ? T(0) : d * (out * Log(x));
  }
};

const bool kPow =
    BinaryOp<Pow>("pow", "Raises X to the power Y element by element, with broadcasting.", "X ** Y")
        .Grad([](GradContext& g) {
          g.EmitGrad("pow_grad", {"X", "Y"}, {"out"}, {"out"}, {"X", "Y"});
        })
        .Oracle("X**Y")
        .Sample("X=[3,17]{0.1,3} Y=[3,17]{0,4}")
        .Sample("X=[7,17]{0.5,2} Y=[17]{0,3}")
        .Sample("X=[17]{0.5,2} Y=[]{2,2}")
        .Sample("X=[2,1,5]{0.5,2} Y=[3,1]{0,2}")
        .Sample("X=[0,3] Y=[3]")
        .Sample("X=int64[4,3]{-3,3} Y=int64[1]{3,3}")
        .Sample("X=float32[64]{special} Y=float32[8,1]{special}")
        .Register();

const bool kPowGrad =
    BinaryGradOp<PowGrad>("pow_grad",
                          "Gradient of pow: dout * Y * X ** (Y - 1) and dout * out * log(X), "
                          "summed over the broadcast dimensions.")
        .Grad([](GradContext& g) {
          const Term x = In(g, "X"), y = In(g, "Y"), out = In(g, "out"), dout = In(g, "dout");
          const Term dx = OutGradient(g, "dX"), dy = OutGradient(g, "dY");
          // dX is dout * Y * X ** less, dY is dout * out * log(X).
          const Term less = y - Filled(y, 1), power("pow", {{"X", {x}}, {"Y", {less}}}, "out");
          const auto slope = [&](const Term& exponent, const Term& result, const Term& given,
                                 const char* slot) {
            return given
                       ? Again(
                             g,
                             {{"X", {x}}, {"Y", {exponent}}, {"out", {result}}, {"dout", {given}}},
                             slot)
                       : Term();
          };
          const Term log_x = LogOf(x);
          Give(g, "dout", dx * y * power + dy * out * log_x);
          Give(g, "out", dy * dout * log_x);
          const Term weight = dx * dout * y;
          Give(g, "X", slope(less, power, weight, "dX") + SummedTo(dy * dout * out / x, x));
          Give(g, "Y", slope(less, power, weight, "dY") + SummedTo(dx * dout * power, y));
        })
        .Register();

}  // namespace
}  // namespace opstep
