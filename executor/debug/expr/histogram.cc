// histogram(): how many elements are in each bin.
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "debug/expr/operators.h"

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
      // Rounding must not move an element out of the bin between whose edges it lies.
      if (p[i] < edge(bin))
        --bin;
      else if (bin + 1 < bins && p[i] >= edge(bin + 1))
        ++bin;
      ++counts[std::max<int64_t>(bin, 0)];
    }
  });
  return Value::Finish(std::move(out));
}

}  // namespace opstep::expr
