// is_nan and is_inf: which elements are not ordinary numbers.
#include <limits>

#include "ops/lib/unary_attr.h"

namespace opstep {
namespace {

struct IsNan {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static bool Do(T x) {
    return x != x;
  }
};

template <typename T>
struct IsInf {
  explicit IsInf(const OpView& op)
      : negative(op.Bool("detect_negative")), positive(op.Bool("detect_positive")) {}
  OPSTEP_INLINE bool operator()(T x) const {
    constexpr T kInf = std::numeric_limits<T>::infinity();
    return (negative & (x == -kInf)) | (positive & (x == kInf));
  }
  bool negative, positive;
};

void ShapeToBool(ShapeContext& ctx) { ctx.set_out(0, {DType::kBool, ctx.in(0).dims}); }

const bool kIsNan = Op("is_nan")
                        .Doc("True where an element is NaN.")
                        .In("X", "any shape", kFloats)
                        .Out("out", "as X", kBools)
                        .Shape(ShapeToBool)
                        .Prepare(PrepareUnary<IsNan>)
                        .Oracle("np.isnan(X)")
                        .Sample("X=[3,17]")
                        .Sample("X=[64]{special}")
                        .Sample("X=[]")
                        .Sample("X=[0,2]")
                        .Register();

const bool kIsInf = Op("is_inf")
                        .Doc("True where an element is infinite.")
                        .In("X", "any shape", kFloats)
                        .Attr(BoolAttr("detect_negative", true), "-infinity counts")
                        .Attr(BoolAttr("detect_positive", true), "+infinity counts")
                        .Out("out", "as X", kBools)
                        .Shape(ShapeToBool)
                        .Prepare(PrepareUnaryAttr<IsInf>)
                        .Oracle(R"(
negative = np.isneginf(X) & detect_negative
negative | (np.isposinf(X) & detect_positive)
)")
                        .Sample("X=[3,17]")
                        .Sample("X=[64]{special}")
                        .Sample("X=[64]{special} detect_negative=False")
                        .Sample("X=[64]{special} detect_positive=False")
                        .Sample("X=[]")
                        .Sample("X=[0,2]")
                        .Register();

}  // namespace
}  // namespace opstep
