// sum, mean, max, any and other reductions over axes.
#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>

#include "base/summary.h"
#include "debug/expr/operators.h"

namespace opstep::expr {
namespace {

// Additions in fixed lanes: the compiler can use vectors, and the result is the same everywhere.
constexpr int kLanes = 8;

template <typename C, typename F>
inline double AddUp(const C* p, int64_t n, F f) {
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] += f(static_cast<double>(p[i + l]));
  }
  for (int l = 0; i < n; ++i, ++l) lanes[l] += f(static_cast<double>(p[i]));
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

// Each accumulator takes the elements of one result, run by run.
template <typename C>
struct Sum {
  double sum = 0;
  void Add(const C* p, int64_t n) {
    sum += AddUp(p, n, [](double v) { return v; });
  }
  double Result(int64_t) const { return sum; }
};

template <>
struct Sum<int64_t> {
  uint64_t sum = 0;  // wraps, as in NumPy
  void Add(const int64_t* p, int64_t n) {
    for (int64_t i = 0; i < n; ++i) sum += static_cast<uint64_t>(p[i]);
  }
  int64_t Result(int64_t) const { return static_cast<int64_t>(sum); }
};

template <typename C>
struct Mean {
  double sum = 0;
  void Add(const C* p, int64_t n) {
    sum += AddUp(p, n, [](double v) { return v; });
  }
  double Result(int64_t n) const { return sum / static_cast<double>(n); }
};

template <typename C>
struct Std {
  double seen = 0, mean = 0, squares = 0;
  void Add(const C* p, int64_t n) {
    const double size = static_cast<double>(n),
                 here = AddUp(p, n, [](double v) { return v; }) / size;
    const double around = AddUp(p, n, [here](double v) { return (v - here) * (v - here); });
    const double delta = here - mean;
    squares += seen == 0 ? around : around + delta * delta * (seen * size / (seen + size));
    mean = seen == 0 ? here : mean + delta * (size / (seen + size));
    seen += size;
  }
  double Result(int64_t n) const { return std::sqrt(squares / static_cast<double>(n)); }
};

template <typename C>
struct Var : Std<C> {
  double Result(int64_t n) const { return this->squares / static_cast<double>(n); }
};

template <typename C>
struct Norm {
  double sum = 0;
  void Add(const C* p, int64_t n) {
    sum += AddUp(p, n, [](double v) { return v * v; });
  }
  double Result(int64_t) const { return std::sqrt(sum); }
};

// Smallest or largest; a NaN wins and stays in its lane, since no comparison removes it.
template <typename C, bool kMax>
struct Extreme {
  C best = 0;
  bool first = true;
  static C Better(C a, C b) {
    const bool take = (kMax ? b > a : b < a) | (b != b);
    return take ? b : a;
  }
  void Add(const C* p, int64_t n) {
    C lanes[kLanes];
    std::fill_n(lanes, kLanes, first ? p[0] : best);
    first = false;
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) lanes[l] = Better(lanes[l], p[i + l]);
    }
    for (int l = 0; i < n; ++i, ++l) lanes[l] = Better(lanes[l], p[i]);
    best = lanes[0];
    for (int l = 1; l < kLanes; ++l) best = Better(best, lanes[l]);
  }
  C Result(int64_t) const { return best; }
};

template <typename C, bool kMax>
struct ArgExtreme {
  C best = 0;
  int64_t at = -1, seen = 0;
  void Add(const C* p, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const bool better =
          at < 0 || (best == best && (p[i] != p[i] || (kMax ? p[i] > best : p[i] < best)));
      if (!better) continue;
      best = p[i];
      at = seen + i;
    }
    seen += n;
  }
  int64_t Result(int64_t) const { return at; }
};

template <typename C>
struct CountNonzero {
  int64_t count = 0;
  void Add(const C* p, int64_t n) {
    for (int64_t i = 0; i < n; ++i) count += p[i] != 0;
  }
};
template <typename C>
struct Any : CountNonzero<C> {
  int64_t Result(int64_t) const { return this->count > 0; }
};
template <typename C>
struct All : CountNonzero<C> {
  int64_t Result(int64_t n) const { return this->count == n; }
};

template <typename Accumulator, typename C>
void RunReduction(const Value& view, int64_t outer, int64_t inner, DType dtype, char* to,
                  Budget& budget) {
  Reader<C> reader(view);
  for (int64_t o = 0; o < outer; ++o) {
    Accumulator accumulator;
    for (int64_t i = 0; i < inner;) {
      const int64_t n = std::min(Reader<C>::kChunk, inner - i);
      budget.Spend(n);
      accumulator.Add(reader.Next(n), n);
      i += n;
    }
    budget.Spend(1);
    const auto result = accumulator.Result(inner);
    Store(dtype, &result, 1, to + o * static_cast<int64_t>(SizeOf(dtype)));
  }
}

template <typename C>
void RunReduction(ReduceOp op, const Value& view, int64_t outer, int64_t inner, DType dtype,
                  char* to, Budget& budget) {
  switch (op) {
    case ReduceOp::kAny:
      return RunReduction<Any<C>, C>(view, outer, inner, dtype, to, budget);
    case ReduceOp::kAll:
      return RunReduction<All<C>, C>(view, outer, inner, dtype, to, budget);
    case ReduceOp::kMin:
      return RunReduction<Extreme<C, false>, C>(view, outer, inner, dtype, to, budget);
    case ReduceOp::kMax:
      return RunReduction<Extreme<C, true>, C>(view, outer, inner, dtype, to, budget);
    case ReduceOp::kMean:
      return RunReduction<Mean<C>, C>(view, outer, inner, dtype, to, budget);
    case ReduceOp::kSum:
      return RunReduction<Sum<C>, C>(view, outer, inner, dtype, to, budget);
    case ReduceOp::kStd:
      return RunReduction<Std<C>, C>(view, outer, inner, dtype, to, budget);
    case ReduceOp::kVar:
      return RunReduction<Var<C>, C>(view, outer, inner, dtype, to, budget);
    case ReduceOp::kNorm:
      return RunReduction<Norm<C>, C>(view, outer, inner, dtype, to, budget);
    case ReduceOp::kArgMax:
      return RunReduction<ArgExtreme<C, true>, C>(view, outer, inner, dtype, to, budget);
    case ReduceOp::kArgMin:
      return RunReduction<ArgExtreme<C, false>, C>(view, outer, inner, dtype, to, budget);
  }
}

DType ResultType(ReduceOp op, DType from) {
  switch (op) {
    case ReduceOp::kAny:
    case ReduceOp::kAll:
      return DType::kBool;
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      return from;
    case ReduceOp::kSum:
      return IsFloat(from) ? from : DType::kInt64;
    case ReduceOp::kArgMax:
    case ReduceOp::kArgMin:
      return DType::kInt64;
    default:
      return IsFloat(from) ? from : DType::kFloat64;
  }
}

// Bit i is set when axis i is to be reduced.
uint32_t Axes(const Value& x, const Value* axis, bool one_axis) {
  if (axis == nullptr) return (1u << x.rank) - 1;
  uint32_t axes = 0;
  const auto add = [&](const Value& v) {
    const int64_t a = ToIndex(v, "axis");
    OPSTEP_CHECK(a >= -x.rank && a < x.rank, "axis ", a, " is out of range for ", x.Describe());
    const uint32_t bit = 1u << (a < 0 ? a + x.rank : a);
    OPSTEP_CHECK(!(axes & bit), "axis ", a, " is given twice");
    axes |= bit;
  };
  if (axis->kind != Value::Kind::kList) {
    add(*axis);
  } else {
    OPSTEP_CHECK(!one_axis, "argmax() and argmin() take one axis");
    for (const Value& v : axis->list()) add(v);
  }
  return axes;
}

// Bytes of booleans, eight at a time, up to the first decisive one.
bool AnyByte(const char* p, int64_t n, Budget& budget) {
  constexpr int64_t kBlock = 4096;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t end = std::min(n, i + kBlock);
    char all = 0;
    for (int64_t j = i; j < end; ++j) all |= p[j];
    if (all != 0) return true;
    budget.Spend(end - i);
  }
  return false;
}

}  // namespace

Reduced SplitAxes(const Value& x, const Value* axis, bool keepdims, bool one_axis) {
  const uint32_t axes = Axes(x, axis, one_axis);
  Reduced split;
  split.view = x;
  int at = 0;
  for (int i = 0; i < x.rank; ++i) {
    if (axes >> i & 1) {
      split.inner *= x.dims[i];
      if (keepdims) split.dims.push_back(1);
      continue;
    }
    split.outer *= x.dims[i];
    split.dims.push_back(x.dims[i]);
    split.view.dims[at] = x.dims[i];
    split.view.strides[at++] = x.strides[i];
  }
  for (int i = 0; i < x.rank; ++i) {
    if (!(axes >> i & 1)) continue;
    split.view.dims[at] = x.dims[i];
    split.view.strides[at++] = x.strides[i];
  }
  return split;
}

Value Reduce(ReduceOp op, const Value& value, const Value* axis, bool keepdims, Budget& budget) {
  const Value x = ToNumeric(value, "a reduction", budget);
  const DType from = x.full_dtype();
  const Reduced split = SplitAxes(x, axis, keepdims, op >= ReduceOp::kArgMax);
  const bool needs_some = op == ReduceOp::kMin || op == ReduceOp::kMax || op >= ReduceOp::kArgMax;
  OPSTEP_CHECK(split.inner > 0 || split.outer == 0 || !needs_some,
               "an empty array has no smallest or largest element");
  if (op == ReduceOp::kAny && from == DType::kBool && split.outer == 1 && split.dims.rank() == 0 &&
      x.is_array() && x.dense()) {
    return Value::Bool(AnyByte(x.memory(), split.inner, budget), DType::kBool);
  }
  const DType to = ResultType(op, from);
  Value out;
  char* memory;
  Value::Fresh(to, split.dims, budget, &out, &memory);
  if (split.outer > 0) {
    DispatchCompute(from, [&](auto c) {
      RunReduction<decltype(c)>(op, split.view, split.outer, split.inner, to, memory, budget);
    });
  }
  return Value::Finish(std::move(out));
}

std::optional<Value> ReduceTest(ReduceOp op, UnaryOp test, const Value& x) {
  const bool counts = op == ReduceOp::kAny || op == ReduceOp::kAll || op == ReduceOp::kSum;
  if (!counts || test < UnaryOp::kIsNan || !x.is_array() || !IsFloat(x.dtype) || !x.dense())
    return {};
  Tensor t(VarType{x.dtype, x.shape()});
  t.data = const_cast<char*>(x.memory());
  const NonFinite bad = CountNonFinite(t);
  const int64_t nan = static_cast<int64_t>(bad.nan), inf = static_cast<int64_t>(bad.inf);
  const int64_t hits = test == UnaryOp::kIsNan   ? nan
                       : test == UnaryOp::kIsInf ? inf
                                                 : t.numel - nan - inf;
  if (op == ReduceOp::kSum) return Value::Int(hits, DType::kInt64);
  return Value::Bool(op == ReduceOp::kAny ? hits > 0 : hits == t.numel, DType::kBool);
}

}  // namespace opstep::expr
