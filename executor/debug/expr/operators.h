// The operators and array functions of expressions, over Value.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "debug/expr/value.h"

namespace opstep::expr {

// The first enumerators have the numbers of the wire's Expr.
enum class BinaryOp {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kMatMul,
  kAnd,
  kOr,
  kXor
};
enum class CompareOp { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual };
enum class UnaryOp {
  kNegate,
  kPlus,
  kNot,
  kInvert,
  kAbs,
  kSqrt,
  kExp,
  kLog,
  kIsNan,
  kIsInf,
  kIsFinite
};
enum class ReduceOp { kAny, kAll, kMin, kMax, kMean, kSum, kStd, kVar, kNorm, kArgMax, kArgMin };

// As in the source text: "+".
std::string_view SymbolOf(BinaryOp op);
std::string_view SymbolOf(CompareOp op);

Value Binary(BinaryOp op, const Value& a, const Value& b, Budget& budget);
Value Compare(CompareOp op, const Value& a, const Value& b, Budget& budget);
Value Unary(UnaryOp op, const Value& x, Budget& budget);
Value Where(const Value& condition, const Value& a, const Value& b, Budget& budget);
Value MatMul(const Value& a, const Value& b, Budget& budget);

// Python's own arithmetic on weak scalars: exact integers, an Error where Python raises.
Value PythonBinary(BinaryOp op, const Value& a, const Value& b);
Value PythonUnary(UnaryOp op, const Value& x);

// Floor division and modulo of NumPy and Python. The divisor is not zero.
int64_t FloorDivide(int64_t a, int64_t b);
int64_t Modulo(int64_t a, int64_t b);
template <typename F>
F FloatModulo(F a, F b);
template <typename F>
F FloatFloorDivide(F a, F b);

// Over all elements, or along the axes (an int or a list of them) when given.
Value Reduce(ReduceOp op, const Value& x, const Value* axis, bool keepdims, Budget& budget);
// Reduce(op, Unary(test, x)) without the array in between; empty when it does not apply.
std::optional<Value> ReduceTest(ReduceOp op, UnaryOp test, const Value& x);

// How many of the finite elements are in each of the bins, which are equally wide, from the
// smallest element to the largest or over the range.
Value Histogram(const Value& x, int64_t bins, const std::optional<std::pair<double, double>>& range,
                Budget& budget);
// The axes that a reduction leaves come first in `view`, then those that it takes away.
struct Reduced {
  Value view;
  Dims dims;  // of the result
  int64_t outer = 1, inner = 1;
};
// Along all axes, or the given ones (an int or a list; some functions take only one).
Reduced SplitAxes(const Value& x, const Value* axis, bool keepdims, bool one_axis = false);

// The value below which this part of the elements (0 to `whole`) lies, interpolated between two
// elements. Several parts form the first axis of the result.
Value Quantile(const Value& x, const Value& part, double whole, const Value* axis, bool keepdims,
               Budget& budget);
Value Median(const Value& x, const Value* axis, bool keepdims, Budget& budget);

// Half to even; decimals may be negative.
Value Round(const Value& x, int64_t decimals, Budget& budget);
// The same elements; one of the sizes may be -1.
Value Reshape(const Value& x, const Value& dims, Budget& budget);
// Ascending, NaN last. Along the last axis by default.
Value Sort(const Value& x, const Value* axis, Budget& budget);
// The k largest, NaN first, and their positions: two arrays.
Value TopK(const Value& x, int64_t k, const Value* axis, Budget& budget);

struct Subscript {
  enum class Kind { kIndex, kRange, kEllipsis };
  Kind kind = Kind::kIndex;
  Value index;
  std::optional<int64_t> start, stop, step;
};
Value Index(const Value& value, const std::vector<Subscript>& subscripts, Budget& budget);
// The same of an array, where one element stays an array of rank 0 in the array's memory.
Value View(const Value& value, const std::vector<Subscript>& subscripts, Budget& budget);

}  // namespace opstep::expr
