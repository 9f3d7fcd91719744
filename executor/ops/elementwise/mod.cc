// mod: the remainder of X / Y with the sign of Y, or of X as in fmod, and its gradient.
#include "ops/lib/binary.h"

namespace opstep {
namespace {

// The remainder of integers with the sign of X; Y must not be 0.
template <typename T>
OPSTEP_INLINE T Remainder(T x, T y) {
  OPSTEP_CHECK(y != 0, "Y holds a 0: integers cannot be divided by it");
  // The smallest integer divided by -1 does not fit its type.
  return y == T(-1) ? T(0) : static_cast<T>(x % y);
}

// With the sign of Y, as % in Python.
struct Mod {
  static constexpr Types kTypes = Types::kNumbers;
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T y) {
    if constexpr (std::is_integral_v<T>) {
      const T r = Remainder(x, y);
      return r != 0 && (r < 0) != (y < 0) ? static_cast<T>(r + y) : r;
    } else {
      const T r = std::fmod(x, y);
      return r != T(0) && (r < T(0)) != (y < T(0)) ? r + y : r;
    }
  }
};

// With the sign of X, as fmod in C.
struct Fmod {
  static constexpr Types kTypes = Types::kNumbers;
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T y) {
    if constexpr (std::is_integral_v<T>) {
      return Remainder(x, y);
    } else {
      return std::fmod(x, y);
    }
  }
};

template <bool kFmod>
struct ModGrad {
  static constexpr bool kNeedsX = true, kNeedsY = true, kNeedsOut = false;
  template <typename T>
  OPSTEP_INLINE static T X([[maybe_unused]] T x, [[maybe_unused]] T y, [[maybe_unused]] T out,
                           T d) {
    return d;
  }
  template <typename T>
  OPSTEP_INLINE static T Y([[maybe_unused]] T x, [[maybe_unused]] T y, [[maybe_unused]] T out,
                           T d) {
    return -d * (kFmod ? std::trunc(x / y) : std::floor(x / y));
  }
};

const bool kMod =
    BinaryOp<Mod>("mod", "The remainder of X divided by Y, element by element, with broadcasting.",
                  "X mod Y")
        .Attr(BoolAttr("fmod", false), "the result has the sign of X; else it has that of Y")
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return ctx.op().Bool("fmod") ? PrepareBinary<Fmod>(ctx) : PrepareBinary<Mod>(ctx);
        })
        .Grad([](GradContext& g) {
          g.EmitGrad("mod_grad", {"X", "Y"}, {}, {"out"}, {"X", "Y"});
        })
        .Oracle("np.fmod(X, Y) if fmod else np.mod(X, Y)")
        .Sample("X=[3,17]{-9,9} Y=[3,17]{1,4}")
        .Sample("X=[3,17]{-9,9} Y=[3,17]{1,4} fmod=True")
        .Sample("X=[7,17]{-9,9} Y=[17]{-4,-1}")
        .Sample("X=[7,17]{-9,9} Y=[17]{-4,-1} fmod=True")
        .Sample("X=[2,1,5]{-9,9} Y=[3,1]{2,3}")
        .Sample("X=[] Y=[4]{1,2}")
        .Sample("X=[0,3] Y=[3]{1,2}")
        .Sample("X=float32[64]{special} Y=float32[8,1]{special}")
        .Sample("X=float32[64]{special} Y=float32[8,1]{special} fmod=True")
        .Register();

const bool kModGrad =
    BinaryGradOp<ModGrad<false>>("mod_grad",
                                 "Gradient of mod: dout and -dout * the whole part of X / Y, "
                                 "summed over the broadcast dimensions.")
        .Attr(BoolAttr("fmod", false), "as in the forward op")
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return ctx.op().Bool("fmod") ? PrepareBinaryGrad<ModGrad<true>>(ctx)
                                       : PrepareBinaryGrad<ModGrad<false>>(ctx);
        })
        .Register();

}  // namespace
}  // namespace opstep
