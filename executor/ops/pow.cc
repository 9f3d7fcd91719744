#include "ops/binary.h"

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
    // 0 ** y does not move with a positive y, although log(0) is infinite.
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
        .Register();

}  // namespace
}  // namespace opstep
