// logical_and, logical_or, logical_xor and logical_not of booleans.
#include "ops/lib/binary.h"
#include "ops/lib/unary.h"

namespace opstep {
namespace {

struct And {
  static constexpr Types kTypes = Types::kBools;
  OPSTEP_INLINE static bool Do(bool x, bool y) { return x & y; }
};

struct Or {
  static constexpr Types kTypes = Types::kBools;
  OPSTEP_INLINE static bool Do(bool x, bool y) { return x | y; }
};

struct Xor {
  static constexpr Types kTypes = Types::kBools;
  OPSTEP_INLINE static bool Do(bool x, bool y) { return x ^ y; }
};

struct Not {
  static constexpr Types kTypes = Types::kBools;
  OPSTEP_INLINE static bool Do(bool x) { return !x; }
};

template <typename F>
bool RegisterLogical(std::string type, std::string doc, std::string sign) {
  return Op(std::move(type))
      .Doc(std::move(doc))
      .In("X", "left side", kBools)
      .In("Y", "right side", kBools)
      .Out("out", "X " + sign + " Y", kBools)
      .InplaceOf("X")
      .Shape(BinaryShape<>)
      .Prepare(PrepareBinary<F>)
      .Oracle("X " + sign + " Y")
      .Sample("X=[3,17] Y=[3,17]")
      .Sample("X=[7,17] Y=[17]")
      .Sample("X=[4,1] Y=[1,33]")
      .Sample("X=[] Y=[1]")
      .Sample("X=[0,3] Y=[3]")
      .Register();
}

const bool kAnd = RegisterLogical<And>(
    "logical_and", "True where both X and Y are, element by element, with broadcasting.", "&");
const bool kOr = RegisterLogical<Or>(
    "logical_or", "True where X or Y is, element by element, with broadcasting.", "|");
const bool kXor = RegisterLogical<Xor>(
    "logical_xor", "True where just one of X and Y is, element by element, with broadcasting.",
    "^");

const bool kNot = Op("logical_not")
                      .Doc("True where X is false.")
                      .In("X", "any shape", kBools)
                      .Out("out", "not X", kBools)
                      .InplaceOf("X")
                      .Shape(OutLikeInput<0>)
                      .Prepare(PrepareUnary<Not>)
                      .Oracle("~X")
                      .Sample("X=[3,17]")
                      .Sample("X=[]")
                      .Sample("X=[0,2]")
                      .Register();

}  // namespace
}  // namespace opstep
