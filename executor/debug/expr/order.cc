// Functions that sort or rearrange elements: quantile, median, sort, topk, round, reshape.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "debug/expr/operators.h"

namespace opstep::expr {
namespace {

// Does a come before b? NaN comes last.
template <typename C>
bool Before(C a, C b) {
  return a < b || (b != b && a == a);
}

// The same for library algorithms, which may take long: counts each comparison.
template <typename C>
struct Counted {
  Budget& budget;
  bool operator()(C a, C b) const {
    budget.Spend(1);
    return Before(a, b);
  }
};

// Reads all elements, `inner` at a time, into its own memory and calls f(row, index).
template <typename C, typename F>
void ForEachRow(const Value& view, int64_t outer, int64_t inner, Budget& budget, F f) {
  static_assert(sizeof(C) <= sizeof(int64_t));
  const auto owner = budget.Allocate(inner, DType::kInt64);
  C* const row = static_cast<C*>(owner.get());
  Reader<C> reader(view);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner;) {
      const int64_t n = std::min(Reader<C>::kChunk, inner - i);
      budget.Spend(n);
      std::copy_n(reader.Next(n), n, row + i);
      i += n;
    }
    f(row, o);
  }
}

// NumPy's linear interpolation, from the nearer end.
double Between(double a, double b, double part) {
  const double step = b - a;
  return part < 0.5 ? a + step * part : b - step * (1 - part);
}

// The axis of the sort, moved to the end.
struct Along {
  Value view;
  int axis = 0;
  int64_t outer = 1, inner = 1;
};

Along MoveLast(const Value& x, const Value* axis, std::string_view function) {
  OPSTEP_CHECK(x.rank > 0, function, " takes an array, not ", x.Describe());
  const int64_t a = axis ? ToIndex(*axis, "axis") : -1;
  OPSTEP_CHECK(a >= -x.rank && a < x.rank, "axis ", a, " is out of range for ", x.Describe());
  Along along{x, static_cast<int>(a < 0 ? a + x.rank : a), 1, 1};
  along.inner = x.dims[along.axis];
  along.outer = along.inner > 0 ? x.numel() / along.inner : 0;
  for (int i = along.axis; i + 1 < x.rank; ++i) {
    along.view.dims[i] = x.dims[i + 1];
    along.view.strides[i] = x.strides[i + 1];
  }
  along.view.dims[x.rank - 1] = x.dims[along.axis];
  along.view.strides[x.rank - 1] = x.strides[along.axis];
  return along;
}

// An array whose last axis, of `size`, belongs where `along` took its axis from.
Value MoveBack(const Along& along, int64_t size, DType dtype, Budget& budget, char** memory) {
  Dims dims = along.view.shape();
  dims[dims.rank() - 1] = size;
  Value out;
  Value::Fresh(dtype, dims, budget, &out, memory);
  return out;
}

Value Transposed(Value value, int axis) {
  const int last = value.rank - 1;
  std::rotate(value.dims + axis, value.dims + last, value.dims + last + 1);
  std::rotate(value.strides + axis, value.strides + last, value.strides + last + 1);
  return value;
}

}  // namespace

Value Quantile(const Value& value, const Value& wanted, double whole, const Value* axis,
               bool keepdims, Budget& budget) {
  const std::string_view name = whole == 1 ? "quantile()" : "percentile()";
  const Value x = ToNumeric(value, name, budget);
  const Value q = ToNumeric(wanted, name, budget);
  const Reduced split = SplitAxes(x, axis, keepdims);
  OPSTEP_CHECK(split.inner > 0, "an empty array has no ", name.substr(0, name.size() - 2), "s");
  const int64_t parts = q.numel();
  std::vector<double> places;
  Reader<double> reader(q);
  for (int64_t i = 0; i < parts;) {
    const int64_t n = std::min(Reader<double>::kChunk, parts - i);
    budget.Spend(n);
    const double* p = reader.Next(n);
    for (int64_t j = 0; j < n; ++j) {
      OPSTEP_CHECK(p[j] >= 0 && p[j] <= whole, "a ", name.substr(0, name.size() - 2),
                   " is from 0 to ", whole, ", not ", p[j]);
      places.push_back(p[j] / whole * static_cast<double>(split.inner - 1));
    }
    i += n;
  }
  // NumPy's rule: several parts give a float64 result.
  const bool narrow = q.is_scalar() && IsFloat(x.full_dtype());
  const DType dtype = narrow ? x.full_dtype() : DType::kFloat64;
  Dims dims = q.shape();
  for (int i = 0; i < split.dims.rank(); ++i) dims.push_back(split.dims[i]);
  Value out;
  char* memory = nullptr;
  Value::Fresh(dtype, dims, budget, &out, &memory);
  ForEachRow<double>(split.view, split.outer, split.inner, budget, [&](double* row, int64_t o) {
    const bool nan = std::any_of(row, row + split.inner, [](double v) { return v != v; });
    for (int64_t i = 0; i < parts; ++i) {
      double result = std::nan("");
      if (!nan) {
        budget.Spend(split.inner);
        double* const at = row + static_cast<int64_t>(places[i]);
        std::nth_element(row, at, row + split.inner, Counted<double>{budget});
        result = *at;
        const double part = places[i] - std::floor(places[i]);
        if (part > 0) result = Between(result, *std::min_element(at + 1, row + split.inner), part);
      }
      Store(dtype, &result, 1,
            memory + (i * split.outer + o) * static_cast<int64_t>(SizeOf(dtype)));
    }
  });
  return Value::Finish(std::move(out));
}

Value Median(const Value& value, const Value* axis, bool keepdims, Budget& budget) {
  const Value x = ToNumeric(value, "median()", budget);
  const Reduced split = SplitAxes(x, axis, keepdims);
  const DType dtype = IsFloat(x.full_dtype()) ? x.full_dtype() : DType::kFloat64;
  Value out;
  char* memory = nullptr;
  Value::Fresh(dtype, split.dims, budget, &out, &memory);
  ForEachRow<double>(split.view, split.outer, split.inner, budget, [&](double* row, int64_t o) {
    double result = std::nan("");
    const int64_t n = split.inner;
    if (n > 0 && !std::any_of(row, row + n, [](double v) { return v != v; })) {
      budget.Spend(n);
      double* const at = row + n / 2;
      std::nth_element(row, at, row + n, Counted<double>{budget});
      result = *at;
      if (n % 2 == 0) result = (result + *std::max_element(row, at)) / 2;
    }
    Store(dtype, &result, 1, memory + o * static_cast<int64_t>(SizeOf(dtype)));
  });
  return Value::Finish(std::move(out));
}

Value Round(const Value& value, int64_t decimals, Budget& budget) {
  const Value x = ToNumeric(value, "round()", budget);
  const DType dtype = x.full_dtype();
  OPSTEP_CHECK(decimals >= -400 && decimals <= 400, "round() takes -400 to 400 decimals, not ",
               decimals);
  OPSTEP_CHECK(dtype != DType::kBool, "round() takes numbers, not booleans");
  if (!IsFloat(dtype) && decimals >= 0) return value;
  Value out;
  char* memory = nullptr;
  Value::Fresh(dtype, x.shape(), budget, &out, &memory);
  DispatchCompute(dtype, [&](auto c) {
    using C = decltype(c);
    using F = std::conditional_t<std::is_same_v<C, int64_t>, double, C>;
    const F scale = static_cast<F>(std::pow(10.0, std::abs(static_cast<double>(decimals))));
    Reader<C> reader(x);
    C to[Reader<C>::kChunk];
    const int64_t count = x.numel();
    for (int64_t i = 0; i < count;) {
      const int64_t n = std::min(Reader<C>::kChunk, count - i);
      budget.Spend(n);
      const C* from = reader.Next(n);
      for (int64_t j = 0; j < n; ++j) {
        const F v = static_cast<F>(from[j]);
        const F rounded = decimals == 0  ? std::nearbyint(v)
                          : decimals > 0 ? std::nearbyint(v * scale) / scale
                                         : std::nearbyint(v / scale) * scale;
        to[j] = static_cast<C>(rounded);
      }
      Store(dtype, to, n, memory + i * static_cast<int64_t>(SizeOf(dtype)));
      i += n;
    }
  });
  return Value::Finish(std::move(out));
}

Value Reshape(const Value& value, const Value& wanted, Budget& budget) {
  const Value x = ToNumeric(value, "reshape()", budget);
  std::vector<int64_t> sizes;
  if (wanted.kind == Value::Kind::kList) {
    for (const Value& v : wanted.list()) sizes.push_back(ToIndex(v, "a size"));
  } else {
    sizes.push_back(ToIndex(wanted, "a size"));
  }
  OPSTEP_CHECK(sizes.size() <= Dims::kMaxRank, "an array has at most ", Dims::kMaxRank, " axes");
  const int64_t count = x.numel();
  int64_t known = 1;
  int64_t* open = nullptr;
  for (int64_t& size : sizes) {
    OPSTEP_CHECK(size >= -1, "a size is 0 or more, or -1 for what is left, not ", size);
    if (size >= 0) {
      // A size that is too large fails below.
      if (__builtin_mul_overflow(known, size, &known)) known = -1;
      continue;
    }
    OPSTEP_CHECK(open == nullptr, "reshape() takes one -1");
    open = &size;
  }
  if (open != nullptr && known > 0 && count % known == 0) {
    *open = count / known;
    known = count;
  }
  const Dims dims(sizes);
  OPSTEP_CHECK((open == nullptr || *open >= 0) && known == count, "reshape() cannot make ",
               dims.ToString(), " of the ", count, " elements of ", x.Describe());
  const Tensor dense = ToTensor(x, x.full_dtype(), budget);
  Tensor shaped(VarType{dense.dtype, dims});
  shaped.data = dense.data;
  shaped.owner = dense.owner;
  return Value::Of(shaped);
}

Value Sort(const Value& value, const Value* axis, Budget& budget) {
  const Value x = ToNumeric(value, "sort()", budget);
  const Along along = MoveLast(x, axis, "sort()");
  const DType dtype = x.full_dtype();
  char* memory = nullptr;
  Value out = MoveBack(along, along.inner, dtype, budget, &memory);
  if (along.outer == 0) return Transposed(std::move(out), along.axis);
  DispatchCompute(dtype, [&](auto c) {
    using C = decltype(c);
    ForEachRow<C>(along.view, along.outer, along.inner, budget, [&](C* row, int64_t o) {
      std::sort(row, row + along.inner, Counted<C>{budget});
      Store(dtype, row, along.inner,
            memory + o * along.inner * static_cast<int64_t>(SizeOf(dtype)));
    });
  });
  return Transposed(std::move(out), along.axis);
}

Value TopK(const Value& value, int64_t k, const Value* axis, Budget& budget) {
  const Value x = ToNumeric(value, "topk()", budget);
  const Along along = MoveLast(x, axis, "topk()");
  OPSTEP_CHECK(k >= 0 && k <= along.inner, "topk() takes 0 to ", along.inner, " of ", x.Describe(),
               ", not ", k);
  const DType dtype = x.full_dtype();
  char *best = nullptr, *at = nullptr;
  Value values = MoveBack(along, k, dtype, budget, &best);
  Value positions = MoveBack(along, k, DType::kInt64, budget, &at);
  const auto owner = budget.Allocate(along.inner, DType::kInt64);
  int64_t* const order = static_cast<int64_t*>(owner.get());
  DispatchCompute(dtype, [&](auto c) {
    using C = decltype(c);
    ForEachRow<C>(along.view, along.outer, along.inner, budget, [&](C* row, int64_t o) {
      std::iota(order, order + along.inner, 0);
      // The first of equal elements.
      const auto better = [row, &budget](int64_t a, int64_t b) {
        budget.Spend(1);
        return Before(row[b], row[a]) || (!Before(row[a], row[b]) && a < b);
      };
      std::partial_sort(order, order + k, order + along.inner, better);
      for (int64_t i = 0; i < k; ++i) {
        Store(dtype, row + order[i], 1, best + (o * k + i) * static_cast<int64_t>(SizeOf(dtype)));
        Store(DType::kInt64, order + i, 1, at + (o * k + i) * 8);
      }
    });
  });
  return Value::List(
      {Transposed(std::move(values), along.axis), Transposed(std::move(positions), along.axis)});
}

}  // namespace opstep::expr
