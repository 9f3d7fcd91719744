// Histograms against plain loops, and samples.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "base/histogram.h"
#include "base/summary.h"

using namespace opstep;

namespace {

using Counts = std::vector<uint64_t>;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

template <typename T>
Tensor Make(DType dtype, const std::vector<T>& values) {
  Tensor t = Tensor::Allocate({dtype, {static_cast<int64_t>(values.size())}});
  if (!values.empty()) std::memcpy(t.data, values.data(), t.bytes());
  return t;
}

template <typename T>
Counts CountsOf(DType dtype, const std::vector<T>& values, double low, double high, int bins) {
  const Histogram h = MakeHistogram(Make(dtype, values), low, high, bins);
  assert(std::isnan(low) || (h.low == low && h.high == high));
  return h.counts;
}

template <typename T>
void AgainstLoop(DType dtype, int64_t n, int bins) {
  std::mt19937 random(static_cast<uint32_t>(n));
  std::vector<T> values(static_cast<size_t>(n));
  for (T& v : values) v = static_cast<T>(random() % 100) / T(4);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double least = static_cast<double>(*low), most = static_cast<double>(*high);
  Counts want(static_cast<size_t>(bins));
  for (T v : values) {
    const long double share = (static_cast<long double>(v) - least) / (most - least);
    ++want[most > least ? std::min(static_cast<size_t>(bins - 1), static_cast<size_t>(share * bins))
                        : static_cast<size_t>(bins - 1)];
  }
  // Not finite: in no bin.
  if constexpr (std::is_floating_point_v<T>) {
    values.insert(values.end(),
                  {static_cast<T>(kNan), static_cast<T>(kInf), static_cast<T>(-kInf)});
  }
  const Tensor t = Make(dtype, values);
  const Summary s = Summarize(t);
  assert(s.min == least && s.max == most);
  assert(MakeHistogram(t, s.min, s.max, bins).counts == want);
  assert(std::accumulate(want.begin(), want.end(), uint64_t{0}) == static_cast<uint64_t>(n));
}

void Edges() {
  const std::vector<float> ten = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  // An edge belongs to the bin above it, but the last one.
  assert(CountsOf(DType::kFloat32, ten, 0, 10, 10) == (Counts{1, 1, 1, 1, 1, 1, 1, 1, 1, 2}));
  assert(CountsOf(DType::kFloat32, ten, 0, 10, 2) == (Counts{5, 6}));
  // Who lies outside is in none.
  assert(CountsOf(DType::kFloat32, ten, 2, 4, 2) == (Counts{1, 2}));
  // Integers on edges, where a product with the inverse width would fall below some.
  std::vector<double> many(50);
  std::iota(many.begin(), many.end(), 0);
  Counts ones(49, 1);
  ones.back() = 2;
  assert(CountsOf(DType::kFloat64, many, 0, 49, 49) == ones);
  // All equal.
  assert(CountsOf<float>(DType::kFloat32, {3, 3, 3}, 3, 3, 4) == (Counts{0, 0, 0, 3}));
  // The whole of a type, and the least of it.
  const double most = std::numeric_limits<double>::max();
  assert(CountsOf<double>(DType::kFloat64, {-most, -most / 2, 0, 1, most}, -most, most, 2) ==
         (Counts{2, 3}));
  const double least = std::numeric_limits<double>::denorm_min();
  assert(CountsOf<double>(DType::kFloat64, {0, least, 2 * least}, 0, 2 * least, 2) ==
         (Counts{1, 2}));
  assert(CountsOf<uint8_t>(DType::kBool, {0, 1, 7, 0}, 0, 1, 2) == (Counts{2, 2}));
  assert(CountsOf<uint16_t>(DType::kFloat16, {0x3c00, 0xc000, 0x7c00, 0x7e00}, -2, 1, 3) ==
         (Counts{1, 0, 1}));
  assert(CountsOf<uint16_t>(DType::kBFloat16, {0x3f80, 0xc000}, -2, 1, 3) == (Counts{1, 0, 1}));
}

void Nothing() {
  assert(CountsOf<float>(DType::kFloat32, {}, 0, 1, 3) == (Counts{0, 0, 0}));
  const Summary s = Summarize(Make<double>(DType::kFloat64, {kNan, kInf}));
  assert(CountsOf<double>(DType::kFloat64, {kNan, kInf}, s.min, s.max, 2) == (Counts{0, 0}));
  assert(MakeHistogram(Tensor(), 0, 1, 2).counts == (Counts{0, 0}));
  assert(CountsOf<float>(DType::kFloat32, {1}, 0, 1, 0).empty());
}

void Samples() {
  using Positions = std::vector<int64_t>;
  assert(SamplePositions(0, 4).empty() && SamplePositions(4, 0).empty());
  assert(SamplePositions(3, 8) == (Positions{0, 1, 2}));
  assert(SamplePositions(3, 3) == (Positions{0, 1, 2}));
  assert(SamplePositions(10, 1) == (Positions{0}));
  assert(SamplePositions(10, 4) == (Positions{0, 3, 6, 9}));
  for (int64_t numel : {int64_t{1000}, int64_t{512 * 512}, std::numeric_limits<int64_t>::max()}) {
    const Positions positions = SamplePositions(numel, 16);
    assert(positions.size() == 16 && positions.front() == 0 && positions.back() == numel - 1);
    const int64_t step = (numel - 1) / 15;
    for (size_t i = 1; i < positions.size(); ++i) {
      const int64_t gap = positions[i] - positions[i - 1];
      assert(gap == step || gap == step + 1);
    }
  }
  // Of a square tensor not always the same column.
  Positions columns = SamplePositions(512 * 512, 16);
  for (int64_t& position : columns) position %= 512;
  std::sort(columns.begin(), columns.end());
  assert(std::unique(columns.begin(), columns.end()) == columns.end());

  const Positions at = SamplePositions(7, 3);
  int16_t shorts[3];
  CopyElements(Make<int16_t>(DType::kInt16, {10, 11, 12, 13, 14, 15, 16}), at, shorts);
  assert(shorts[0] == 10 && shorts[1] == 13 && shorts[2] == 16);
  double doubles[3];
  CopyElements(Make<double>(DType::kFloat64, {0, 1, 2, 3, 4, 5, kInf}), at, doubles);
  assert(doubles[0] == 0 && doubles[1] == 3 && doubles[2] == kInf);
}

}  // namespace

int main() {
  for (int64_t n : {1, 2, 3, 100, 4096, 4097, 10000}) {
    for (int bins : {1, 2, 7, 64, 1000}) {
      AgainstLoop<float>(DType::kFloat32, n, bins);
      AgainstLoop<double>(DType::kFloat64, n, bins);
      AgainstLoop<int8_t>(DType::kInt8, n, bins);
      AgainstLoop<int16_t>(DType::kInt16, n, bins);
      AgainstLoop<int32_t>(DType::kInt32, n, bins);
      AgainstLoop<int64_t>(DType::kInt64, n, bins);
      AgainstLoop<uint8_t>(DType::kUInt8, n, bins);
    }
  }
  Edges();
  Nothing();
  Samples();
  std::puts("ok");
}
