// Arithmetic on Python's own scalars.
#include <cmath>
#include <type_traits>

#include "debug/expr/operators.h"

namespace opstep::expr {
namespace {

using Kind = Value::Kind;

int64_t AsInt(const Value& v) { return v.kind == Kind::kBool ? v.b : v.i; }
double AsFloat(const Value& v) {
  return v.kind == Kind::kFloat ? v.f : static_cast<double>(AsInt(v));
}

[[noreturn]] void TooLarge(std::string_view symbol) {
  Fail("the result of ", symbol, " does not fit into 64 bits: use floats");
}

int64_t IntPower(int64_t base, int64_t exponent) {
  int64_t result = 1;
  // The powers of these bases do not grow.
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  for (;;) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) TooLarge("**");
    exponent >>= 1;
    if (exponent == 0) return result;
    if (__builtin_mul_overflow(base, base, &base)) TooLarge("**");
  }
}

Value OfInts(BinaryOp op, int64_t a, int64_t b) {
  int64_t r = 0;
  bool overflow = false;
  switch (op) {
    case BinaryOp::kAdd:
      overflow = __builtin_add_overflow(a, b, &r);
      break;
    case BinaryOp::kSubtract:
      overflow = __builtin_sub_overflow(a, b, &r);
      break;
    case BinaryOp::kMultiply:
      overflow = __builtin_mul_overflow(a, b, &r);
      break;
    case BinaryOp::kFloorDivide:
      OPSTEP_CHECK(b != 0, "// divides by zero");
      overflow = b == -1 && a == INT64_MIN;
      if (!overflow) r = FloorDivide(a, b);
      break;
    case BinaryOp::kModulo:
      OPSTEP_CHECK(b != 0, "% divides by zero");
      r = Modulo(a, b);
      break;
    case BinaryOp::kPower:
      r = IntPower(a, b);
      break;
    case BinaryOp::kAnd:
      r = a & b;
      break;
    case BinaryOp::kOr:
      r = a | b;
      break;
    case BinaryOp::kXor:
      r = a ^ b;
      break;
    default:
      break;
  }
  if (overflow) TooLarge(SymbolOf(op));
  return Value::Int(r);
}

Value OfFloats(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd:
      return Value::Float(a + b);
    case BinaryOp::kSubtract:
      return Value::Float(a - b);
    case BinaryOp::kMultiply:
      return Value::Float(a * b);
    case BinaryOp::kPower:
      OPSTEP_CHECK(a != 0 || b >= 0, "0 ** a negative number divides by zero");
      return Value::Float(std::pow(a, b));
    default:
      break;
  }
  OPSTEP_CHECK(b != 0, SymbolOf(op), " divides by zero");
  if (op == BinaryOp::kDivide) return Value::Float(a / b);
  return Value::Float(op == BinaryOp::kModulo ? FloatModulo(a, b) : FloatFloorDivide(a, b));
}

}  // namespace

int64_t FloorDivide(int64_t a, int64_t b) {
  // INT64_MIN / -1 would trap; it wraps, as in NumPy.
  if (b == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(a));
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

int64_t Modulo(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

template <typename F>
F FloatModulo(F a, F b) {
  F r = std::fmod(a, b);
  if (b == 0) return r;
  if (r == 0) return std::copysign(F{0}, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

template <typename F>
F FloatFloorDivide(F a, F b) {
  if (b == 0) return a / b;
  F r = std::fmod(a, b);
  F q = (a - r) / b;
  if (r != 0 && (r < 0) != (b < 0)) q -= 1;
  if (q == 0) return std::copysign(F{0}, a / b);
  const F whole = std::floor(q);
  return q - whole > F(0.5) ? whole + 1 : whole;
}

template float FloatModulo(float, float);
template double FloatModulo(double, double);
template float FloatFloorDivide(float, float);
template double FloatFloorDivide(double, double);

Value PythonBinary(BinaryOp op, const Value& a, const Value& b) {
  const bool bitwise = op == BinaryOp::kAnd || op == BinaryOp::kOr || op == BinaryOp::kXor;
  const bool floats = a.kind == Kind::kFloat || b.kind == Kind::kFloat;
  if (bitwise) {
    OPSTEP_CHECK(!floats, SymbolOf(op), " takes whole numbers and booleans, not ", a.Describe(),
                 " and ", b.Describe());
    const Value r = OfInts(op, AsInt(a), AsInt(b));
    return a.kind == Kind::kBool && b.kind == Kind::kBool ? Value::Bool(r.i != 0) : r;
  }
  const bool negative_power = op == BinaryOp::kPower && !floats && AsInt(b) < 0;
  if (floats || op == BinaryOp::kDivide || negative_power)
    return OfFloats(op, AsFloat(a), AsFloat(b));
  return OfInts(op, AsInt(a), AsInt(b));
}

Value PythonUnary(UnaryOp op, const Value& x) {
  const bool negate =
      op == UnaryOp::kNegate || (op == UnaryOp::kAbs && x.kind != Kind::kFloat && AsInt(x) < 0);
  if (op == UnaryOp::kInvert) {
    OPSTEP_CHECK(x.kind != Kind::kFloat, "~ takes whole numbers and booleans, not a float");
    // Follows NumPy's booleans, not Python's ~True, which is -2 and therefore true.
    return x.kind == Kind::kBool ? Value::Bool(!x.b) : Value::Int(~x.i);
  }
  if (x.kind == Kind::kFloat) {
    return Value::Float(op == UnaryOp::kAbs ? std::abs(x.f) : negate ? -x.f : x.f);
  }
  int64_t r = AsInt(x);
  if (negate && __builtin_sub_overflow(int64_t{0}, r, &r)) TooLarge("-");
  return Value::Int(r);
}

}  // namespace opstep::expr
