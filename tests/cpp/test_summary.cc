// Summaries and the watch for NaN and Inf, against plain loops.
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/half.h"
#include "base/summary.h"

using namespace opstep;

namespace {

const double kNan = std::nan(""), kInf = std::numeric_limits<double>::infinity();

template <typename T>
Tensor Make(DType dtype, const std::vector<T>& values) {
  Tensor t = Tensor::Allocate({dtype, {static_cast<int64_t>(values.size())}});
  if (!values.empty()) std::memcpy(t.data, values.data(), t.bytes());
  return t;
}

// As near as the sums in float are.
bool Near(double a, double b) { return std::abs(a - b) <= 2e-7 * std::max(1.0, std::abs(b)); }

template <typename T>
void AgainstLoop(DType dtype, int64_t n, bool bad) {
  std::mt19937 random(static_cast<uint32_t>(n) + bad);
  std::vector<T> values(n);
  for (T& v : values) v = static_cast<T>(static_cast<int>(random() % 200)) / T(8) + T(1000);
  if (n > 3) values[3] = T(0);
  if (bad) {
    for (int64_t i = 5; i < n; i += 701)
      values[i] = static_cast<T>(i % 3 == 0 ? kNan : i % 3 == 1 ? kInf : -kInf);
  }
  Summary want;
  NonFinite places;
  want.count = static_cast<uint64_t>(n);
  want.min = kInf, want.max = -kInf;
  double sum = 0, squares = 0, energy = 0;
  uint64_t finite = 0;
  for (int64_t i = 0; i < n; ++i) {
    const T v = values[i];
    if (std::isnan(v) && places.nan++ == 0) places.first_nan = i;
    if (std::isinf(v) && places.inf++ == 0) places.first_inf = i;
    if (!std::isfinite(v)) continue;
    ++finite;
    want.zeros += v == 0;
    want.min = std::min<double>(want.min, v), want.max = std::max<double>(want.max, v);
    sum += v;
    energy += static_cast<double>(v) * v;
  }
  want.mean = sum / finite;
  for (T v : values) {
    if (std::isfinite(v)) squares += (v - want.mean) * (v - want.mean);
  }
  want.std = std::sqrt(squares / finite);
  want.l2 = std::sqrt(energy);
  const Tensor t = Make(dtype, values);
  const Summary got = Summarize(t);
  assert(got.count == want.count && got.zeros == want.zeros);
  assert(got.nan == places.nan && got.inf == places.inf);
  assert(got.min == want.min && got.max == want.max);
  assert(Near(got.mean, want.mean) && Near(got.std, want.std));
  assert(Near(got.l2, want.l2));
  assert(AllFinite(t) == (places.nan + places.inf == 0));
  const NonFinite where = CountNonFinite(t);
  assert(where.nan == places.nan && where.inf == places.inf);
  assert(where.first_nan == places.first_nan && where.first_inf == places.first_inf);
}

void EveryPositionIsSeen() {
  for (int64_t n : {1, 7, 16, 33, 4097}) {
    for (int64_t at = 0; at<n; at += n> 100 ? 13 : 1) {
      std::vector<float> f(n, std::numeric_limits<float>::max());
      assert(AllFinite(Make(DType::kFloat32, f)));
      f[at] = -std::numeric_limits<float>::infinity();
      assert(!AllFinite(Make(DType::kFloat32, f)));
      std::vector<double> d(n, std::numeric_limits<double>::lowest());
      assert(AllFinite(Make(DType::kFloat64, d)));
      d[at] = kNan;
      assert(!AllFinite(Make(DType::kFloat64, d)));
      std::vector<uint16_t> h(n, 0x7bff);
      assert(AllFinite(Make(DType::kFloat16, h)));
      h[at] = 0xfc00;
      assert(!AllFinite(Make(DType::kFloat16, h)));
      std::vector<uint16_t> b(n, 0xff7f);
      assert(AllFinite(Make(DType::kBFloat16, b)));
      b[at] = 0x7f81;
      assert(!AllFinite(Make(DType::kBFloat16, b)) &&
             CountNonFinite(Make(DType::kBFloat16, b)).first_nan == at);
    }
  }
}

void OtherTypes() {
  const Summary ints = Summarize(Make<int64_t>(DType::kInt64, {-3, 0, 3, 8}));
  assert(ints.min == -3 && ints.max == 8 && ints.mean == 2 && ints.zeros == 1 && ints.nan == 0);
  const Summary bytes = Summarize(Make<uint8_t>(DType::kUInt8, {0, 255}));
  assert(bytes.max == 255 && bytes.mean == 127.5);
  const Summary bools = Summarize(Make<uint8_t>(DType::kBool, {0, 1, 2, 1}));
  assert(bools.max == 1 && bools.mean == 0.75 && bools.zeros == 1);
  const Summary half = Summarize(Make<uint16_t>(DType::kFloat16, {0x3c00, 0xc000, 0x7c00, 0x7e00}));
  assert(half.min == -2 && half.max == 1 && half.inf == 1 && half.nan == 1 && half.mean == -0.5);
  const Summary none = Summarize(Make<float>(DType::kFloat32, {}));
  assert(none.count == 0 && std::isnan(none.mean) && std::isnan(none.min));
  const Summary nans = Summarize(Make<double>(DType::kFloat64, {kNan}));
  assert(nans.count == 1 && nans.nan == 1 && std::isnan(nans.max));
  assert(Summarize(Tensor()).count == 0 && AllFinite(Tensor()));
  const Summary minus_zero = Summarize(Make<float>(DType::kFloat32, {-0.f, 0.f}));
  assert(minus_zero.zeros == 2);
  // A large mean and a small spread: no cancellation.
  std::vector<double> far(10000);
  for (size_t i = 0; i < far.size(); ++i) far[i] = 1e9 + (i % 2 ? 1e-3 : -1e-3);
  assert(std::abs(Summarize(Make(DType::kFloat64, far)).std - 1e-3) < 1e-6);
}

void Halves() {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t h = static_cast<uint16_t>(bits);
    const float f = HalfToFloat(h);
    if (f != f) continue;
    assert(FloatToHalf(f) == h);
    assert(FloatToBFloat16(BFloat16ToFloat(h)) == h || std::isnan(BFloat16ToFloat(h)));
  }
  assert(FloatToHalf(65519.f) == 0x7bff && FloatToHalf(65520.f) == 0x7c00);
  assert(FloatToHalf(0x1p-25f) == 0 && FloatToHalf(0x1.8p-25f) == 1 &&
         FloatToHalf(-0x1p-24f) == 0x8001);
  assert(HalfToFloat(FloatToHalf(0.1f)) == 0.0999755859375f);
}

}  // namespace

int main() {
  for (int64_t n : {1, 2, 15, 16, 17, 4096, 4097, 10000}) {
    for (bool bad : {false, true}) {
      AgainstLoop<float>(DType::kFloat32, n, bad);
      AgainstLoop<double>(DType::kFloat64, n, bad);
    }
  }
  EveryPositionIsSeen();
  OtherTypes();
  Halves();
  std::puts("ok");
}
