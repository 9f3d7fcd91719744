// Operators and functions element by element, with NumPy's broadcasting and result types.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "debug/expr/operators.h"

namespace opstep::expr {
namespace {

using Kind = Value::Kind;

template <typename C, typename F>
inline void Each(const C* a, const C* b, C* out, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
}

int64_t WrappingPower(int64_t base, int64_t exponent) {
  OPSTEP_CHECK(exponent >= 0, "** cannot raise whole numbers to negative powers: use floats");
  uint64_t result = 1, b = static_cast<uint64_t>(base);
  for (; exponent != 0; exponent >>= 1, b *= b) {
    if (exponent & 1) result *= b;
  }
  return static_cast<int64_t>(result);
}

void BinaryChunk(BinaryOp op, const int64_t* a, const int64_t* b, int64_t* out, int64_t n) {
  using U = uint64_t;
  const auto wrap = [](auto f) {
    return [f](int64_t x, int64_t y) {
      return static_cast<int64_t>(f(static_cast<U>(x), static_cast<U>(y)));
    };
  };
  if (op == BinaryOp::kFloorDivide || op == BinaryOp::kModulo) {
    OPSTEP_CHECK(std::find(b, b + n, 0) == b + n, SymbolOf(op),
                 " divides by zero in whole numbers: use floats");
  }
  switch (op) {
    case BinaryOp::kAdd:
      return Each(a, b, out, n, wrap([](U x, U y) { return x + y; }));
    case BinaryOp::kSubtract:
      return Each(a, b, out, n, wrap([](U x, U y) { return x - y; }));
    case BinaryOp::kMultiply:
      return Each(a, b, out, n, wrap([](U x, U y) { return x * y; }));
    case BinaryOp::kFloorDivide:
      return Each(a, b, out, n, FloorDivide);
    case BinaryOp::kModulo:
      return Each(a, b, out, n, Modulo);
    case BinaryOp::kPower:
      return Each(a, b, out, n, WrappingPower);
    case BinaryOp::kAnd:
      return Each(a, b, out, n, [](int64_t x, int64_t y) { return x & y; });
    case BinaryOp::kOr:
      return Each(a, b, out, n, [](int64_t x, int64_t y) { return x | y; });
    case BinaryOp::kXor:
      return Each(a, b, out, n, [](int64_t x, int64_t y) { return x ^ y; });
    default:
      Fail("whole numbers have no operator ", SymbolOf(op));
  }
}

template <typename F>
void BinaryChunk(BinaryOp op, const F* a, const F* b, F* out, int64_t n) {
  switch (op) {
    case BinaryOp::kAdd:
      return Each(a, b, out, n, [](F x, F y) { return x + y; });
    case BinaryOp::kSubtract:
      return Each(a, b, out, n, [](F x, F y) { return x - y; });
    case BinaryOp::kMultiply:
      return Each(a, b, out, n, [](F x, F y) { return x * y; });
    case BinaryOp::kDivide:
      return Each(a, b, out, n, [](F x, F y) { return x / y; });
    case BinaryOp::kFloorDivide:
      return Each(a, b, out, n, FloatFloorDivide<F>);
    case BinaryOp::kModulo:
      return Each(a, b, out, n, FloatModulo<F>);
    case BinaryOp::kPower:
      return Each(a, b, out, n,
                  [](F x, F y) { return y == 2 ? x * x : static_cast<F>(std::pow(x, y)); });
    default:
      Fail(SymbolOf(op), " takes whole numbers and booleans, not floats");
  }
}

template <typename C>
void CompareChunk(CompareOp op, const C* a, const C* b, char* out, int64_t n) {
  const auto each = [&](auto f) {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<char>(f(a[i], b[i]));
  };
  switch (op) {
    case CompareOp::kEqual:
      return each([](C x, C y) { return x == y; });
    case CompareOp::kNotEqual:
      return each([](C x, C y) { return x != y; });
    case CompareOp::kLess:
      return each([](C x, C y) { return x < y; });
    case CompareOp::kLessEqual:
      return each([](C x, C y) { return x <= y; });
    case CompareOp::kGreater:
      return each([](C x, C y) { return x > y; });
    case CompareOp::kGreaterEqual:
      return each([](C x, C y) { return x >= y; });
  }
}

template <typename C>
void UnaryChunk(UnaryOp op, const C* x, C* out, int64_t n) {
  const auto each = [&](auto f) {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<C>(f(x[i]));
  };
  if constexpr (std::is_same_v<C, int64_t>) {
    const auto negate = [](int64_t v) {
      return static_cast<int64_t>(0 - static_cast<uint64_t>(v));
    };
    switch (op) {
      case UnaryOp::kNegate:
        return each(negate);
      case UnaryOp::kAbs:
        return each([=](int64_t v) { return v < 0 ? negate(v) : v; });
      case UnaryOp::kInvert:
        return each([](int64_t v) { return ~v; });
      case UnaryOp::kIsNan:
      case UnaryOp::kIsInf:
        return each([](int64_t) { return 0; });
      case UnaryOp::kIsFinite:
        return each([](int64_t) { return 1; });
      default:
        return each([](int64_t v) { return v; });
    }
  } else {
    switch (op) {
      case UnaryOp::kNegate:
        return each([](C v) { return -v; });
      case UnaryOp::kAbs:
        return each([](C v) { return std::abs(v); });
      case UnaryOp::kSqrt:
        return each([](C v) { return std::sqrt(v); });
      case UnaryOp::kExp:
        return each([](C v) { return std::exp(v); });
      case UnaryOp::kLog:
        return each([](C v) { return std::log(v); });
      case UnaryOp::kIsNan:
        return each([](C v) { return v != v; });
      case UnaryOp::kIsInf:
        return each([](C v) { return std::isinf(v); });
      case UnaryOp::kIsFinite:
        return each([](C v) { return std::isfinite(v); });
      default:
        return each([](C v) { return v; });
    }
  }
}

// Runs f(to, n) over the elements of a fresh result, a chunk at a time.
template <typename F>
Value Produce(DType dtype, const Dims& dims, Budget& budget, F f) {
  Value out;
  char* memory;
  Value::Fresh(dtype, dims, budget, &out, &memory);
  const int64_t total = dims.numel(), size = static_cast<int64_t>(SizeOf(dtype));
  constexpr int64_t kChunk = Reader<float>::kChunk;
  for (int64_t i = 0; i < total; i += kChunk) {
    const int64_t n = std::min(kChunk, total - i);
    budget.Spend(n);
    f(memory + i * size, n);
  }
  return Value::Finish(std::move(out));
}

bool FitsInto(int64_t i, DType dtype) {
  if (dtype == DType::kUInt8) return i >= 0 && i <= UINT8_MAX;
  const int bits = static_cast<int>(SizeOf(dtype)) * 8 - 1;
  return bits == 63 || (i >= -(int64_t{1} << bits) && i < int64_t{1} << bits);
}

void CheckWeak(const Value& v, DType dtype) {
  if (v.is_weak() && v.kind == Kind::kInt && IsInteger(dtype) && !FitsInto(v.i, dtype)) {
    Fail("the number ", v.i, " does not fit into ", NameOf(dtype));
  }
}

template <typename C>
C ScalarAs(const Value& v) {
  if (v.kind == Kind::kBool) return static_cast<C>(v.b);
  return v.kind == Kind::kInt ? static_cast<C>(v.i) : static_cast<C>(v.f);
}

// An array of one element, of the shape that two such arrays give together.
Value AsOneElement(const Value& scalar, int rank) {
  if (rank == 0) return scalar;
  Value out;
  out.kind = Kind::kArray;
  out.dtype = DType::kBool;
  out.rank = static_cast<int8_t>(rank);
  out.small[0] = scalar.b;
  std::fill_n(out.dims, rank, 1);
  std::fill_n(out.strides, rank, 1);
  return out;
}

bool ListsEqual(const Value& a, const Value& b, Budget& budget) {
  const auto &x = a.list(), &y = b.list();
  if (x.size() != y.size()) return false;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!Truth(Compare(CompareOp::kEqual, x[i], y[i], budget))) return false;
  }
  return true;
}

}  // namespace

std::string_view SymbolOf(BinaryOp op) {
  constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^"};
  return kSymbols[static_cast<int>(op)];
}

std::string_view SymbolOf(CompareOp op) {
  constexpr std::string_view kSymbols[] = {"==", "!=", "<", "<=", ">", ">="};
  return kSymbols[static_cast<int>(op)];
}

Value Binary(BinaryOp op, const Value& left, const Value& right, Budget& budget) {
  if (op == BinaryOp::kMatMul) return MatMul(left, right, budget);
  if (left.is_weak() && right.is_weak()) return PythonBinary(op, left, right);
  if (!left.is_number() || !right.is_number()) {
    if (left.kind == Kind::kList && right.kind == Kind::kList && op == BinaryOp::kAdd) {
      std::vector<Value> joined = left.list();
      joined.insert(joined.end(), right.list().begin(), right.list().end());
      return Value::List(std::move(joined));
    }
    const Value a = ToNumeric(left, SymbolOf(op), budget),
                b = ToNumeric(right, SymbolOf(op), budget);
    return Binary(op, a, b, budget);
  }
  DType dtype = Promote(left, right);
  CheckWeak(left, dtype);
  CheckWeak(right, dtype);
  if (dtype == DType::kBool) {
    OPSTEP_CHECK(op != BinaryOp::kSubtract, "- is not defined for booleans: use ^");
    const bool whole =
        op == BinaryOp::kFloorDivide || op == BinaryOp::kModulo || op == BinaryOp::kPower;
    if (whole) dtype = DType::kInt8;
  }
  if (op == BinaryOp::kDivide && !IsFloat(dtype)) dtype = DType::kFloat64;
  if (left.is_scalar() && right.is_scalar()) {
    return DispatchCompute(dtype, [&](auto c) {
      using C = decltype(c);
      const C a = ScalarAs<C>(left), b = ScalarAs<C>(right);
      C result;
      BinaryChunk(op, &a, &b, &result, 1);
      alignas(8) char memory[8];
      Store(dtype, &result, 1, memory);
      return LoadScalar(dtype, memory);
    });
  }
  const Dims dims = Broadcast(left.shape(), right.shape(), SymbolOf(op));
  return DispatchCompute(dtype, [&](auto c) {
    using C = decltype(c);
    Reader<C> a(left, dims), b(right, dims);
    C result[Reader<C>::kChunk];
    return Produce(dtype, dims, budget, [&](char* to, int64_t n) {
      const bool direct = dtype == DTypeOf<C>::value;
      C* into = direct ? reinterpret_cast<C*>(to) : result;
      BinaryChunk(op, a.Next(n), b.Next(n), into, n);
      if (!direct) Store(dtype, result, n, to);
    });
  });
}

Value Compare(CompareOp op, const Value& left, const Value& right, Budget& budget) {
  const bool equality = op == CompareOp::kEqual || op == CompareOp::kNotEqual;
  if (left.is_scalar() && right.is_scalar()) {
    // The usual condition: no memory at all.
    char out = 0;
    DispatchCompute(Promote(left, right), [&](auto c) {
      const auto a = ScalarAs<decltype(c)>(left), b = ScalarAs<decltype(c)>(right);
      CompareChunk(op, &a, &b, &out, 1);
    });
    return Value::Bool(out, left.is_weak() && right.is_weak() ? DType::kNone : DType::kBool);
  }
  if (left.kind == Kind::kString || right.kind == Kind::kString) {
    if (left.kind == right.kind) {
      const int order = left.string().compare(right.string()), zero = 0;
      char out = 0;
      CompareChunk(op, &order, &zero, &out, 1);
      return Value::Bool(out);
    }
    OPSTEP_CHECK(equality, SymbolOf(op), " cannot compare ", left.Describe(), " with ",
                 right.Describe());
    return Value::Bool(op == CompareOp::kNotEqual);
  }
  if (left.kind == Kind::kList && right.kind == Kind::kList) {
    OPSTEP_CHECK(equality, SymbolOf(op), " cannot compare lists: only == and != can");
    return Value::Bool(ListsEqual(left, right, budget) == (op == CompareOp::kEqual));
  }
  if (!left.is_number() || !right.is_number()) {
    const Value a = ToNumeric(left, SymbolOf(op), budget),
                b = ToNumeric(right, SymbolOf(op), budget);
    return Compare(op, a, b, budget);
  }
  if (left.numel() == 1 && right.numel() == 1) {
    const Value result = Compare(op, Element(left), Element(right), budget);
    return AsOneElement(result, std::max(left.rank, right.rank));
  }
  const Dims dims = Broadcast(left.shape(), right.shape(), SymbolOf(op));
  return DispatchCompute(Promote(left, right), [&](auto c) {
    Reader<decltype(c)> a(left, dims), b(right, dims);
    return Produce(DType::kBool, dims, budget,
                   [&](char* to, int64_t n) { CompareChunk(op, a.Next(n), b.Next(n), to, n); });
  });
}

Value Unary(UnaryOp op, const Value& value, Budget& budget) {
  if (op == UnaryOp::kNot) return Value::Bool(!Truth(value));
  constexpr std::string_view kNames[] = {"-",       "+",       "not",       "~",
                                         "abs()",   "sqrt()",  "exp()",     "log()",
                                         "isnan()", "isinf()", "isfinite()"};
  const std::string_view name = kNames[static_cast<int>(op)];
  if (value.is_weak() && op <= UnaryOp::kAbs) return PythonUnary(op, value);
  const Value x = ToNumeric(value, name, budget);
  const DType from = x.full_dtype();
  const bool is_bool = from == DType::kBool;
  const bool test = op >= UnaryOp::kIsNan, smooth = op > UnaryOp::kAbs && !test;
  OPSTEP_CHECK(op != UnaryOp::kInvert || !IsFloat(from), "~ takes whole numbers and booleans, not ",
               x.Describe());
  OPSTEP_CHECK(op != UnaryOp::kNegate || !is_bool, "- is not defined for booleans: use ~");
  if (op == UnaryOp::kInvert && is_bool)
    return Compare(CompareOp::kEqual, x, Value::Int(0), budget);
  const DType compute = smooth && !IsFloat(from) ? DType::kFloat64 : from;
  const DType to_dtype = test ? DType::kBool : compute;
  return DispatchCompute(compute, [&](auto c) {
    using C = decltype(c);
    Reader<C> reader(x);
    C result[Reader<C>::kChunk];
    return Produce(to_dtype, x.shape(), budget, [&](char* to, int64_t n) {
      UnaryChunk(op, reader.Next(n), result, n);
      Store(to_dtype, result, n, to);
    });
  });
}

Value Where(const Value& condition, const Value& left, const Value& right, Budget& budget) {
  const Value test =
      Compare(CompareOp::kNotEqual, ToNumeric(condition, "where()", budget), Value::Int(0), budget);
  const Value x = ToNumeric(left, "where()", budget), y = ToNumeric(right, "where()", budget);
  const DType dtype = Promote(x, y);
  CheckWeak(x, dtype);
  CheckWeak(y, dtype);
  const Dims dims = Broadcast(test.shape(), Broadcast(x.shape(), y.shape(), "where()"), "where()");
  return DispatchCompute(dtype, [&](auto c) {
    using C = decltype(c);
    Reader<int64_t> choose(test, dims);
    Reader<C> a(x, dims), b(y, dims);
    C result[Reader<C>::kChunk];
    return Produce(dtype, dims, budget, [&](char* to, int64_t n) {
      const int64_t* p = choose.Next(n);
      const C *pa = a.Next(n), *pb = b.Next(n);
      for (int64_t i = 0; i < n; ++i) result[i] = p[i] ? pa[i] : pb[i];
      Store(dtype, result, n, to);
    });
  });
}

}  // namespace opstep::expr
