// neg: each element with the opposite sign.
#include "ops/grad/terms.h"
#include "ops/lib/numeric.h"
#include "ops/lib/unary.h"

namespace opstep {
namespace {

struct Neg {
  static constexpr Types kTypes = Types::kNumbers;
  template <typename T>
  OPSTEP_INLINE static T Do(T x) {
    if constexpr (std::is_integral_v<T>) {
      return Minus(T(0), x);
    } else {
      return -x;
    }
  }
};

const bool kNeg = Op("neg")
                      .Doc("Each element with the opposite sign.")
                      .In("X", "any shape", kNumbers)
                      .Out("out", "-X", kNumbers)
                      .InplaceOf("X")
                      .Shape(OutLikeInput<0>)
                      .Prepare(PrepareUnary<Neg>)
                      .Grad([](GradContext& g) {
                        g.Emit("neg", {{"X", {g.OutGrad("out")}}}, {{"out", {g.InGrad("X")}}});
                      })
                      .Oracle("-X")
                      .Sample("X=[3,17]")
                      .Sample("X=[0,2]")
                      .Sample("X=[]")
                      .Sample("X=float32[64]{special}")
                      .Register();

}  // namespace

Term operator-(const Term& x) { return x ? Term("neg", {{"X", {x}}}, "out") : x; }

}  // namespace opstep
