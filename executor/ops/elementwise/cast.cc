// cast: the same values in another dtype, and its gradient.
#include <cmath>
#include <limits>
#include <type_traits>

#include "ops/grad/same_elements_grad.h"
#include "ops/grad/terms.h"
#include "ops/lib/shape_rules.h"
#include "ops/lib/simd.h"
#include "ops/op.h"

namespace opstep {
namespace {

template <typename T>
constexpr bool kIs16BitFloat = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// Floats are cut towards 0; a value that the integer type cannot hold becomes the nearest limit,
// NaN becomes 0.
template <typename To, typename From>
OPSTEP_INLINE To Convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (kIs16BitFloat<From>) {
    return Convert<To>(static_cast<float>(x));
  } else if constexpr (kIs16BitFloat<To>) {
    // Through a double, values that float32 cannot hold are rounded only once.
    constexpr bool kFits = std::is_same_v<From, float> || sizeof(From) < 4;
    return To(static_cast<std::conditional_t<kFits, float, double>>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
    constexpr From kHigh = static_cast<From>(std::numeric_limits<To>::max());
    if (x != x) return To(0);
    if (x >= kHigh) return std::numeric_limits<To>::max();
    if (x <= kLow) return std::numeric_limits<To>::min();
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// The gradient is the input after the forward input.
template <typename To, typename From, int kIn>
struct Body {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const From* x = ctx.in(kIn).as<From>();
    To* out = ctx.out(0).as<To>();
    const int64_t n = ctx.out(0).numel;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = Convert<To>(x[i]);
  }
};

Kernel Prepare(const PrepareContext& ctx) {
  return DispatchEvery(ctx.in(0).dtype, [&](auto from) {
    return DispatchEvery(ctx.out(0).dtype, [&](auto to) {
      return Kernel{Best<Body<decltype(to), decltype(from), 0>>(), nullptr};
    });
  });
}

Kernel PrepareGrad(const PrepareContext& ctx) {
  return DispatchAllFloats(ctx.in(1).dtype, [&](auto from) {
    return DispatchAllFloats(ctx.out(0).dtype, [&](auto to) {
      return Kernel{Best<Body<decltype(to), decltype(from), 1>>(), nullptr};
    });
  });
}

const bool kCast =
    Op("cast")
        .Doc(
            "The same values in another dtype; floats are cut towards 0 when they become integers.")
        .In("X", "any shape", kEvery)
        .Required("to", AttrType::kDType, "the dtype to change to")
        .Out("out", "as X, in the new dtype", kEvery)
        .InplaceOf("X")
        .Shape([](ShapeContext& ctx) {
          ctx.set_out(0, {ctx.op().DType("to"), ctx.in(0).dims});
        })
        .Prepare(Prepare)
        .Grad([](GradContext& g) { g.EmitGrad("cast_grad", {"X"}, {}, {"out"}, {"X"}); })
        .Oracle("X.astype(to)")
        .Sample("X=[3,17]{-9,9} to=float32")
        .Sample("X=[3,17] to=float64")
        .Sample("X=[3,17]{-9,9} to=int64")
        .Sample("X=[3,17]{-9,9} to=int32")
        .Sample("X=[33]{0,100} to=uint8")
        .Sample("X=[33]{-9,9} to=int8")
        .Sample("X=[5]{-9,9} to=int16")
        .Sample("X=[3,17]{-1,1} to=bool")
        .Sample("X=[] to=float64")
        .Sample("X=[0,2] to=int64")
        .Sample("X=float32[64]{special} to=float64")
        .Sample("X=float64[64]{special} to=bool")
        .Register();

const bool kCastGrad =
    Op("cast_grad")
        .Doc("Gradient of cast: dout in the dtype of X.")
        .In("X", "input of cast", kAllFloats)
        .ShapeOnly()
        .In("dout", "gradient of out", kAllFloats)
        .Out("dX", "gradient of X", kAllFloats)
        .InplaceOf("dout")
        .Shape(SameElementsGrad)
        .Prepare(PrepareGrad)
        .Grad([](GradContext& g) {
          // To the dtype of dout.
          Give(g, "dout",
               Again(g, {{"X", {In(g, "dout")}}, {"dout", {OutGradient(g, "dX")}}}, "dX"));
        })
        .Register();

}  // namespace
}  // namespace opstep
