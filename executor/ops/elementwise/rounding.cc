// floor, ceil, round and sign: step functions, with gradient 0.
#include "ops/lib/numeric.h"
#include "ops/lib/unary_op.h"

namespace opstep {
namespace {

struct Floor {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return std::floor(x);
  }
};

struct Ceil {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return std::ceil(x);
  }
};

struct Round {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return std::nearbyint(x);
  }
};

struct Sign {
  static constexpr Types kTypes = Types::kNumbers;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return x > T(0) ? T(1) : x < T(0) ? T(-1) : x != x ? x : T(0);
  }
};

Kernel PrepareZero(const PrepareContext&) {
  return {[](KernelContext& ctx) {
            Tensor& dx = ctx.out(0);
            if (dx.numel > 0) std::memset(dx.data, 0, dx.bytes());
          },
          nullptr};
}

bool RegisterZeroGrad(std::string type, std::string doc) {
  return Op(std::move(type))
      .Doc(std::move(doc))
      .In("X", "of the forward op", kFloats)
      .ShapeOnly()
      .In("dout", "gradient of out", kFloats)
      .ShapeOnly()
      .Out("dX", "gradient of X", kFloats)
      .Shape(OutLikeInput<0>)
      .Prepare(PrepareZero)
      .Register();
}

const bool kFloor =
    UnaryOp("floor", "The largest whole number that is not above the element.", "floor(X)")
        .Prepare(PrepareUnary<Floor>)
        .Grad(GradFromX)
        .Oracle("np.floor(X)")
        .Sample("X=[33]{-99,99}")
        .Register();

const bool kCeil =
    UnaryOp("ceil", "The smallest whole number that is not below the element.", "ceil(X)")
        .Prepare(PrepareUnary<Ceil>)
        .Grad(GradFromX)
        .Oracle("np.ceil(X)")
        .Sample("X=[33]{-99,99}")
        .Register();

const bool kRound =
    UnaryOp("round", "The nearest whole number; the even one of two that are equally near.",
            "round(X)")
        .Prepare(PrepareUnary<Round>)
        .Grad(GradFromX)
        .Oracle("np.round(X)")
        .Sample("X=[33]{-99,99}")
        .Sample("X=float32[1]{2.5,2.5}")
        .Sample("X=float32[1]{-3.5,-3.5}")
        .Register();

const bool kSign = UnaryOp("sign", "1 for a positive element, -1 for a negative one, else 0.",
                           "-1, 0, 1 or NaN", kNumbers)
                       .Prepare(PrepareUnary<Sign>)
                       .Grad(GradFromX)
                       .Oracle("np.sign(X)")
                       .Register();

const bool kFloorGrad = RegisterZeroGrad("floor_grad", "Gradient of floor: 0.");
const bool kCeilGrad = RegisterZeroGrad("ceil_grad", "Gradient of ceil: 0.");
const bool kRoundGrad = RegisterZeroGrad("round_grad", "Gradient of round: 0.");
const bool kSignGrad = RegisterZeroGrad("sign_grad", "Gradient of sign: 0.");

}  // namespace
}  // namespace opstep
