// relu: the positive part of each element, and its gradient.
#include "ops/grad/terms.h"
#include "ops/lib/unary.h"

namespace opstep {
namespace {

struct Relu {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    return x < T(0) ? T(0) : x;
  }
};

struct ReluGrad {
  template <typename T>
  OPSTEP_INLINE static T Do(T out, T d) {
    return out <= T(0) ? T(0) : d;
  }
};

const bool kRelu =
    Op("relu")
        .Doc("The positive part of each element: max(X, 0).")
        .In("X", "any shape", kFloats)
        .Out("out", "as X", kFloats)
        .InplaceOf("X")
        .Shape(OutLikeInput<0>)
        .Prepare(PrepareUnary<Relu>)
        .Grad([](GradContext& g) { g.EmitGrad("relu_grad", {}, {"out"}, {"out"}, {"X"}); })
        .Oracle("np.maximum(X, X.dtype.type(0))")
        .Sample("X=[3,17]")
        .Sample("X=[0,2]")
        .Sample("X=[]")
        .Sample("X=[64]{special}")
        .Register();

const bool kReluGrad = Op("relu_grad")
                           .Doc("Gradient of relu: dout where out is positive, else 0.")
                           .In("out", "output of relu", kFloats)
                           .In("dout", "gradient of out", kFloats)
                           .Out("dX", "gradient of X", kFloats)
                           .InplaceOf("dout")
                           .Shape(OutLikeInput<0>)
                           .Prepare(PrepareUnaryGrad<ReluGrad>)
                           .Grad(FlatGradient)
                           .Register();

}  // namespace

Term WherePositive(const Term& x, const Term& given) {
  return given ? Term("relu_grad", {{"out", {x}}, {"dout", {given}}}, "dX") : given;
}

}  // namespace opstep
