// value[subscripts]: views where NumPy has views, copies for lists and masks.
#include <algorithm>
#include <cstring>

#include "debug/expr/operators.h"

namespace opstep::expr {
namespace {

using Kind = Value::Kind;

int64_t CheckedIndex(int64_t i, int64_t size, const Value& value) {
  OPSTEP_CHECK(i >= -size && i < size, "index ", i, " is out of range for ", value.Describe(),
               ": that axis has ", size, size == 1 ? " element" : " elements");
  return i < 0 ? i + size : i;
}

struct Run {
  int64_t start, step, count;
};

// Python's slice.indices().
Run Resolve(const Subscript& s, int64_t size) {
  const int64_t step = s.step.value_or(1);
  OPSTEP_CHECK(step != 0, "a slice's step must not be zero");
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto clamp = [&](std::optional<int64_t> bound, int64_t otherwise) {
    if (!bound) return otherwise;
    // size is small against the range of int64, so the sum cannot overflow.
    return std::clamp(*bound < 0 ? *bound + size : *bound, low, high);
  };
  const int64_t start = clamp(s.start, step > 0 ? low : high),
                stop = clamp(s.stop, step > 0 ? high : low);
  Run run{start, step, 0};
  if (step > 0 && start < stop) run.count = 1 + (stop - start - 1) / step;
  if (step < 0 && start > stop) {
    const uint64_t stride = 0 - static_cast<uint64_t>(step);
    run.count = 1 + static_cast<int64_t>(static_cast<uint64_t>(start - stop - 1) / stride);
  }
  return run;
}

Value IndexList(const Value& list, const std::vector<Subscript>& subscripts, Budget& budget) {
  const auto& values = list.list();
  const int64_t size = static_cast<int64_t>(values.size());
  const Subscript& first = subscripts.front();
  OPSTEP_CHECK(first.kind != Subscript::Kind::kEllipsis, "a list cannot be indexed with ...");
  if (first.kind == Subscript::Kind::kRange) {
    OPSTEP_CHECK(subscripts.size() == 1, "a list takes one index");
    const Run run = Resolve(first, size);
    std::vector<Value> some;
    for (int64_t k = 0; k < run.count; ++k) some.push_back(values[run.start + k * run.step]);
    return Value::List(std::move(some));
  }
  const Value& chosen =
      values[CheckedIndex(ToIndex(first.index, "the index of a list"), size, list)];
  if (subscripts.size() == 1) return chosen;
  return Index(chosen, {subscripts.begin() + 1, subscripts.end()}, budget);
}

// The rows of `axis` that `picks` names, in that order.
Value Take(const Value& x, int axis, const std::vector<int64_t>& picks, Budget& budget) {
  Dims dims = x.shape();
  dims[axis] = static_cast<int64_t>(picks.size());
  Value out;
  char* memory;
  Value::Fresh(x.dtype, dims, budget, &out, &memory);
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= dims[i];
  for (int i = axis + 1; i < x.rank; ++i) inner *= dims[i];
  if (dims.numel() == 0) return out;
  const Tensor dense = ToTensor(x, x.dtype, budget);
  const int64_t bytes = inner * static_cast<int64_t>(SizeOf(x.dtype)), rows = x.dims[axis];
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t pick : picks) {
      std::memcpy(memory, dense.as<char>() + (o * rows + pick) * bytes, static_cast<size_t>(bytes));
      memory += bytes;
      budget.Spend(inner + 1);
    }
  }
  return out;
}

std::vector<int64_t> Nonzero(const Value& mask, Budget& budget) {
  std::vector<int64_t> picks;
  Reader<int64_t> reader(mask);
  const int64_t total = mask.numel();
  for (int64_t i = 0; i < total;) {
    const int64_t n = std::min(Reader<int64_t>::kChunk, total - i);
    budget.Spend(n);
    const int64_t* p = reader.Next(n);
    for (int64_t j = 0; j < n; ++j) {
      if (p[j]) picks.push_back(i + j);
    }
    i += n;
  }
  return picks;
}

// x[mask]: the elements (or rows) where a mask over the first axes is true.
Value TakeMask(const Value& x, const Value& mask, Budget& budget) {
  OPSTEP_CHECK(mask.rank <= x.rank && std::equal(mask.dims, mask.dims + mask.rank, x.dims),
               "a mask of shape ", mask.shape().ToString(), " does not fit ", x.Describe());
  Tensor flat = ToTensor(x, x.dtype, budget);
  flat.dims = Dims{mask.numel()};
  for (int i = mask.rank; i < x.rank; ++i) flat.dims.push_back(x.dims[i]);
  return Take(Value::Of(flat), 0, Nonzero(mask, budget), budget);
}

// A list or array of positions along one axis of `size` elements.
std::vector<int64_t> Picks(const Value& index, int64_t size, const Value& x, Budget& budget) {
  OPSTEP_CHECK(index.rank == 1,
               "an index must be a whole number, a slice, or a list of one level, not ",
               index.Describe());
  if (index.dtype == DType::kBool) {
    OPSTEP_CHECK(index.dims[0] == size, "a mask of ", index.dims[0], " does not fit an axis of ",
                 size);
    return Nonzero(index, budget);
  }
  std::vector<int64_t> picks;
  if (index.numel() == 0) return picks;
  OPSTEP_CHECK(IsInteger(index.dtype), "an index must be a whole number, not ", index.Describe());
  Reader<int64_t> reader(index);
  const int64_t total = index.numel();
  picks.reserve(static_cast<size_t>(total));
  for (int64_t i = 0; i < total;) {
    const int64_t n = std::min(Reader<int64_t>::kChunk, total - i);
    const int64_t* p = reader.Next(n);
    for (int64_t j = 0; j < n; ++j) picks.push_back(CheckedIndex(p[j], size, x));
    i += n;
  }
  return picks;
}

}  // namespace

Value Index(const Value& value, const std::vector<Subscript>& subscripts, Budget& budget) {
  OPSTEP_CHECK(!subscripts.empty(), "[] needs an index");
  if (value.kind == Kind::kList) return IndexList(value, subscripts, budget);
  return Value::Finish(View(value, subscripts, budget));
}

Value View(const Value& value, const std::vector<Subscript>& subscripts, Budget& budget) {
  OPSTEP_CHECK(value.is_array(), value.Describe(), " cannot be indexed");
  int given = 0, ellipses = 0;
  for (const Subscript& s : subscripts) (s.kind == Subscript::Kind::kEllipsis ? ellipses : given)++;
  OPSTEP_CHECK(ellipses <= 1, "an index can have only one ...");
  OPSTEP_CHECK(given <= value.rank, "too many indices for ", value.Describe(), ": ", given);
  const Subscript& only = subscripts.front();
  if (subscripts.size() == 1 && only.kind == Subscript::Kind::kIndex && only.index.is_array() &&
      only.index.dtype == DType::kBool && only.index.rank > 1) {
    return TakeMask(value, only.index, budget);
  }
  Value out = value;
  out.rank = 0;
  // At most one list of positions; it is applied to the view made by the other subscripts.
  std::optional<std::vector<int64_t>> picks;
  int pick_axis = 0, axis = 0;
  int64_t offset = 0;
  const auto keep = [&](int64_t size, int64_t stride) {
    out.dims[out.rank] = size;
    out.strides[out.rank++] = stride;
  };
  for (const Subscript& s : subscripts) {
    if (s.kind == Subscript::Kind::kEllipsis) {
      for (int skip = value.rank - given; skip > 0; --skip, ++axis)
        keep(value.dims[axis], value.strides[axis]);
      continue;
    }
    const int64_t size = value.dims[axis], stride = value.strides[axis];
    ++axis;
    if (s.kind == Subscript::Kind::kRange) {
      const Run run = Resolve(s, size);
      if (run.count > 0) offset += run.start * stride;
      // The step of a slice of one element may be anything.
      keep(run.count, run.count > 1 ? run.step * stride : stride);
    } else if (s.index.kind == Kind::kList || (s.index.is_array() && s.index.rank > 0)) {
      OPSTEP_CHECK(!picks, "an index can have only one list");
      picks = Picks(ToNumeric(s.index, "an index", budget), size, value, budget);
      pick_axis = out.rank;
      keep(size, stride);
    } else {
      offset += CheckedIndex(ToIndex(s.index, "an index"), size, value) * stride;
    }
  }
  for (; axis < value.rank; ++axis) keep(value.dims[axis], value.strides[axis]);
  if (out.data != nullptr) out.data += offset;
  if (picks) return Take(out, pick_axis, *picks, budget);
  return out;
}

}  // namespace opstep::expr
