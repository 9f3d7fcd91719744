// How the elements of an array are spread.
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "debug/expr_ops.h"

namespace opstep::expr {
namespace {

constexpr int64_t kMaxBins = 100000;

// Calls f with chunks of all elements as doubles.
template <typename F>
void ForEachChunk(const Value& x, Budget& budget, F f) {
  Reader<double> reader(x);
  const int64_t count = x.numel();
  for (int64_t i = 0; i < count;) {
    const int64_t n = std::min(Reader<double>::kChunk, count - i);
    budget.Spend(n);
    f(reader.Next(n), n);
    i += n;
  }
}

}  // namespace

Value Histogram(const Value& value, int64_t bins,
                const std::optional<std::pair<double, double>>& range, Budget& budget) {
  OPSTEP_CHECK(bins >= 1 && bins <= kMaxBins, "histogram() makes 1 to ", kMaxBins, " bins, not ",
               bins);
  const Value x = ToNumeric(value, "histogram()", budget);
  double low = std::numeric_limits<double>::infinity(), high = -low;
  if (range) {
    std::tie(low, high) = *range;
    OPSTEP_CHECK(std::isfinite(low) && std::isfinite(high) && low <= high,
                 "the range of histogram() is two finite numbers, the smaller one first");
  } else {
    ForEachChunk(x, budget, [&](const double* p, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        if (!std::isfinite(p[i])) continue;
        low = std::min(low, p[i]);
        high = std::max(high, p[i]);
      }
    });
    if (low > high) low = 0, high = 1;
  }
  if (low == high) low -= 0.5, high += 0.5;
  const double width = high / static_cast<double>(bins) - low / static_cast<double>(bins);
  const auto edge = [&](int64_t bin) {
    return bin == bins ? high : low + width * static_cast<double>(bin);
  };
  Value out;
  char* memory = nullptr;
  Value::Fresh(DType::kInt64, Dims({bins}), budget, &out, &memory);
  auto* counts = reinterpret_cast<int64_t*>(memory);
  std::fill_n(counts, bins, 0);
  ForEachChunk(x, budget, [&](const double* p, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      if (!(p[i] >= low && p[i] <= high)) continue;  // also NaN
      auto bin = std::min(static_cast<int64_t>((p[i] - low) / width), bins - 1);
      // Rounding must not put an element beside the bin that its edges say.
      if (p[i] < edge(bin))
        --bin;
      else if (bin + 1 < bins && p[i] >= edge(bin + 1))
        ++bin;
      ++counts[std::max<int64_t>(bin, 0)];
    }
  });
  return Value::Finish(std::move(out));
}

Value Percentile(const Value& value, const Value& wanted, Budget& budget) {
  const Value x = ToNumeric(value, "percentile()", budget);
  const Value q = ToNumeric(wanted, "percentile()", budget);
  const int64_t count = x.numel();
  OPSTEP_CHECK(count > 0, "an empty array has no percentiles");
  const auto owner = budget.Allocate(count, DType::kFloat64);
  auto* const all = static_cast<double*>(owner.get());
  double* to = all;
  bool nan = false;
  ForEachChunk(x, budget, [&](const double* p, int64_t n) {
    for (int64_t i = 0; i < n; ++i) nan |= std::isnan(p[i]);
    to = std::copy_n(p, n, to);
  });
  // NumPy's rule: several are as exact as they can be.
  const bool narrow = q.is_scalar() && IsFloat(x.full_dtype());
  const DType dtype = narrow ? x.full_dtype() : DType::kFloat64;
  Value out;
  char* memory = nullptr;
  Value::Fresh(dtype, q.shape(), budget, &out, &memory);
  ForEachChunk(q, budget, [&](const double* p, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      OPSTEP_CHECK(p[i] >= 0 && p[i] <= 100, "a percentile is from 0 to 100, not ", p[i]);
      double result = std::nan("");
      if (!nan) {
        budget.Spend(count);
        const double place = p[i] / 100 * static_cast<double>(count - 1);
        double* const at = all + static_cast<int64_t>(place);
        std::nth_element(all, at, all + count);
        result = *at;
        const double part = place - std::floor(place);
        if (part > 0) result += (*std::min_element(at + 1, all + count) - result) * part;
      }
      Store(dtype, &result, 1, memory);
      memory += SizeOf(dtype);
    }
  });
  return Value::Finish(std::move(out));
}

}  // namespace opstep::expr
