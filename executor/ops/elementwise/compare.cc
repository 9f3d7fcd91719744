// equal, less, greater and the other comparisons: one family, because they differ in one sign.
#include "ops/lib/binary.h"

namespace opstep {
namespace {

#define OPSTEP_COMPARISON(Name, types, sign) \
  struct Name {                              \
    static constexpr Types kTypes = types;   \
    template <typename T>                    \
    OPSTEP_INLINE static bool Do(T x, T y) { \
      return x sign y;                       \
    }                                        \
  }
OPSTEP_COMPARISON(Equal, Types::kAny, ==);
OPSTEP_COMPARISON(NotEqual, Types::kAny, !=);
OPSTEP_COMPARISON(Less, Types::kNumbers, <);
OPSTEP_COMPARISON(LessEqual, Types::kNumbers, <=);
OPSTEP_COMPARISON(Greater, Types::kNumbers, >);
OPSTEP_COMPARISON(GreaterEqual, Types::kNumbers, >=);
#undef OPSTEP_COMPARISON

template <typename F>
bool RegisterComparison(std::string type, std::string what, std::string sign) {
  const DTypeSet dtypes = F::kTypes == Types::kAny ? kAny : kNumbers;
  return Op(std::move(type))
      .Doc("True where X is " + what + " Y, element by element, with broadcasting.")
      .In("X", "left side", dtypes)
      .In("Y", "right side", dtypes)
      .Out("out", "X " + sign + " Y", kBools)
      .Shape(BinaryShape<true>)
      .Prepare(PrepareBinary<F>)
      .Oracle("X " + sign + " Y")
      .Sample("X=[3,17] Y=[3,17]")
      .Sample("X=[7,17]{0,2} Y=[17]{0,2}")
      .Sample("X=[4,33]{0,1} Y=[4,1]{0,1}")
      .Sample("X=[1] Y=[2,3]")
      .Sample("X=[0,3] Y=[3]")
      .Sample("X=float32[64]{special} Y=float32[8,1]{special}")
      .Register();
}

const bool kEqual = RegisterComparison<Equal>("equal", "equal to", "==");
const bool kNotEqual = RegisterComparison<NotEqual>("not_equal", "not equal to", "!=");
const bool kLess = RegisterComparison<Less>("less", "less than", "<");
const bool kLessOrEqual = RegisterComparison<LessEqual>("less_or_equal", "at most", "<=");
const bool kGreater = RegisterComparison<Greater>("greater", "greater than", ">");
const bool kGreaterOrEqual = RegisterComparison<GreaterEqual>("greater_or_equal", "at least", ">=");

}  // namespace
}  // namespace opstep
