// How exact summaries are, and that they are the same bits whatever computes them.
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/half.h"
#include "base/summary.h"

using namespace opstep;

namespace {

constexpr DType kAll[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                          DType::kInt8,    DType::kInt16,   DType::kInt32,   DType::kInt64,
                          DType::kUInt8,   DType::kBool};
constexpr int64_t kSizes[] = {1, 2, 15, 16, 17, 511, 512, 513, 4095, 4096, 4097, 10000};
constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

void Store(const Tensor& t, int64_t i, double v) {
  char* p = static_cast<char*>(t.data) + static_cast<size_t>(i) * SizeOf(t.dtype);
  const auto put = [&](auto element) { std::memcpy(p, &element, sizeof(element)); };
  switch (t.dtype) {
    case DType::kFloat32:
      return put(static_cast<float>(v));
    case DType::kFloat64:
      return put(v);
    case DType::kFloat16:
      return put(FloatToHalf(static_cast<float>(v)));
    case DType::kBFloat16:
      return put(FloatToBFloat16(static_cast<float>(v)));
    case DType::kInt8:
      return put(static_cast<int8_t>(v));
    case DType::kInt16:
      return put(static_cast<int16_t>(v));
    case DType::kInt32:
      return put(static_cast<int32_t>(v));
    case DType::kInt64:
      return put(static_cast<int64_t>(v));
    case DType::kUInt8:
      return put(static_cast<uint8_t>(static_cast<int>(v)));
    default:
      return put(static_cast<uint8_t>(v != 0));
  }
}

double Load(const Tensor& t, int64_t i) {
  switch (t.dtype) {
    case DType::kFloat32:
      return t.as<float>()[i];
    case DType::kFloat64:
      return t.as<double>()[i];
    case DType::kFloat16:
      return HalfToFloat(t.as<uint16_t>()[i]);
    case DType::kBFloat16:
      return BFloat16ToFloat(t.as<uint16_t>()[i]);
    case DType::kInt8:
      return t.as<int8_t>()[i];
    case DType::kInt16:
      return t.as<int16_t>()[i];
    case DType::kInt32:
      return t.as<int32_t>()[i];
    case DType::kInt64:
      return static_cast<double>(t.as<int64_t>()[i]);
    default:
      return t.as<uint8_t>()[i];
  }
}

template <typename F>
Tensor Filled(DType dtype, int64_t n, F value) {
  Tensor t = Tensor::Allocate({dtype, {n}});
  for (int64_t i = 0; i < n; ++i) Store(t, i, value(i));
  return t;
}

// Numbers that lie anywhere between -100 and 100, the same in every run.
class Numbers {
 public:
  explicit Numbers(int64_t seed) : random_(static_cast<uint32_t>(seed)) {}
  double operator()(int64_t) { return static_cast<double>(random_()) / 0x1p32 * 200 - 100; }

 private:
  std::mt19937 random_;
};

Summary Reference(const Tensor& t) {
  Summary r;
  r.count = static_cast<uint64_t>(t.numel);
  r.min = kInf, r.max = -kInf;
  long double sum = 0, squares = 0, spread = 0;
  for (int64_t i = 0; i < t.numel; ++i) {
    const double v = Load(t, i);
    r.nan += std::isnan(v);
    r.inf += std::isinf(v);
    if (!std::isfinite(v)) continue;
    r.zeros += v == 0;
    r.min = std::min(r.min, v), r.max = std::max(r.max, v);
    sum += v;
    squares += static_cast<long double>(v) * v;
  }
  const long double n = static_cast<long double>(r.count - r.nan - r.inf);
  for (int64_t i = 0; i < t.numel; ++i) {
    const double v = Load(t, i);
    if (std::isfinite(v)) spread += (v - sum / n) * (v - sum / n);
  }
  r.mean = static_cast<double>(sum / n);
  r.std = static_cast<double>(std::sqrt(spread / n));
  r.l2 = static_cast<double>(std::sqrt(squares));
  if (n == 0) r.min = r.max = r.mean = r.std = kNan;
  return r;
}

bool SameBits(const Summary& a, const Summary& b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

bool Within(double got, double want, double error) {
  return std::isnan(want) ? std::isnan(got) : got == want || std::abs(got - want) <= error;
}

// mean within `error` deviations, std and l2 within `error` of themselves; with every set of
// instructions that the machine has, to the same bits.
void Check(const Tensor& t, double error) {
  const Summary got = Summarize(t), want = Reference(t);
  const bool right =
      got.count == want.count && got.nan == want.nan && got.inf == want.inf &&
      got.zeros == want.zeros && Within(got.min, want.min, 0) && Within(got.max, want.max, 0) &&
      Within(got.mean, want.mean, error * want.std + 1e-15 * std::abs(want.mean)) &&
      Within(got.std, want.std, error * want.std) && Within(got.l2, want.l2, error * want.l2);
  if (!right) {
    std::fprintf(stderr,
                 "%s of %lld: min %.17g %.17g max %.17g %.17g mean %.17g %.17g std %.17g %.17g "
                 "l2 %.17g %.17g\n",
                 std::string(NameOf(t.dtype)).c_str(), static_cast<long long>(t.numel), got.min,
                 want.min, got.max, want.max, got.mean, want.mean, got.std, want.std, got.l2,
                 want.l2);
  }
  assert(right);
  for (Instructions other : {Instructions::kPortable, Instructions::kAvx2, Instructions::kAvx512}) {
    if (MachineHas(other)) assert(SameBits(Summarize(t, {}, other), got));
  }
}

double Error(DType dtype) { return SizeOf(dtype) <= 2 || dtype == DType::kFloat32 ? 2e-7 : 1e-11; }

void EveryType() {
  for (DType dtype : kAll) {
    for (int64_t n : kSizes) Check(Filled(dtype, n, Numbers(n)), Error(dtype));
  }
}

void NanAndInf() {
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    for (int64_t n : kSizes) {
      for (int64_t every : {1, 2, 7, 600}) {
        Numbers number(n);
        // At 0 first: then the block begins with one that is not finite.
        Check(Filled(dtype, n,
                     [&](int64_t i) {
                       const double v = number(i);
                       return i % every != 0 ? v : i % 3 == 0 ? kNan : i % 3 == 1 ? kInf : -kInf;
                     }),
              Error(dtype));
        // Zero, which then stands in for the others.
        Check(Filled(dtype, n, [&](int64_t i) { return i % every == 0 ? -kInf : 0.0; }), 0);
      }
    }
  }
}

void FarAndNear() {
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    for (double scale : {1e-44, 1e-38, 1e-30, 1e-20, 1e-10, 1.0, 1e10, 1e18, 1e20, 1e36}) {
      Numbers number(3);
      Check(Filled(dtype, 10000, [&](int64_t i) { return number(i) * scale; }), Error(dtype));
      // A large mean and a small spread.
      Check(Filled(dtype, 10000, [&](int64_t i) { return scale * (1 + 1e-5 * number(i)); }),
            Error(dtype));
      const Tensor equal = Filled(dtype, 10000, [&](int64_t) { return scale / 3; });
      const Summary s = Summarize(equal);
      assert(s.std == 0 && s.min == s.max && s.mean == s.min);
      // One that is not as the others: first, in the middle, last.
      for (int64_t at : {0, 2048, 4095, 4096, 9999}) {
        Check(Filled(dtype, 10000, [&](int64_t i) { return i == at ? scale : 0.0; }), Error(dtype));
        Check(Filled(dtype, 10000,
                     [&](int64_t i) { return i == at ? 1000 * scale : number(i) * scale; }),
              Error(dtype));
      }
      // Where the center is looked for, all elements are unlike the others.
      Check(Filled(dtype, 4096,
                   [&](int64_t i) {
                     return i % 2048 == 0 || i == 4095 ? 1e3 * scale : number(i) * scale;
                   }),
            Error(dtype));
    }
  }
}

// Numbers that people write down come out as they would have computed them.
void SmallIntegersAreExact() {
  const Summary ramp = Summarize(Filled(DType::kFloat32, 1 << 20, [](int64_t i) { return i; }));
  assert(ramp.min == 0 && ramp.max == 1048575 && ramp.mean == 524287.5 && ramp.zeros == 1);
  for (DType dtype : kAll) {
    const Summary s = Summarize(Filled(dtype, 10000, [](int64_t i) { return i % 5 == 4; }));
    assert(s.mean == 0.2 && s.l2 == std::sqrt(2000) && s.zeros == 8000);
    assert(std::abs(s.std - 0.4) < 1e-15);
  }
  const Summary three =
      Summarize(Filled(DType::kFloat32, 3, [](int64_t i) { return i + (i < 2); }));
  assert(three.mean == 5.0 / 3 && three.l2 == 3);  // 1, 2, 2
}

// Squares that no double holds, as NumPy has it: infinite, not NaN.
void TooLarge() {
  for (double scale : {1e200, 1e302}) {
    Numbers number(4);
    const Tensor t = Filled(DType::kFloat64, 10000, [&](int64_t i) { return number(i) * scale; });
    const Summary got = Summarize(t), want = Reference(t);
    assert(got.nan == 0 && got.inf == 0 && got.min == want.min && got.max == want.max);
    assert(Within(got.mean, want.mean, 1e-10 * want.max) && got.std == kInf && got.l2 == kInf);
  }
  const Summary equal = Summarize(Filled(DType::kFloat64, 10000, [](int64_t) { return 1e307; }));
  assert(equal.mean == 1e307 && equal.std == 0 && equal.l2 == kInf);
}

void MinusZeroAndEmpty() {
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16}) {
    const Summary s = Summarize(Filled(dtype, 100, [](int64_t i) { return i % 2 ? -0.0 : 0.0; }));
    assert(s.zeros == 100 && s.min == 0 && s.max == 0 && s.std == 0 && s.l2 == 0);
  }
  for (DType dtype : kAll) {
    const Summary s = Summarize(Tensor::Allocate({dtype, {0}}));
    assert(s.count == 0 && std::isnan(s.min) && std::isnan(s.mean) && s.l2 == 0);
  }
}

// Tensors may begin anywhere: at any element of another.
void AnyAddress() {
  for (DType dtype : kAll) {
    const Tensor whole = Filled(dtype, 10000, Numbers(1));
    for (int64_t skip : {1, 3, 7, 31}) {
      Tensor part = whole;
      part.numel = 3001;
      part.data = static_cast<char*>(whole.data) + static_cast<size_t>(skip) * SizeOf(dtype);
      const Tensor copy = Tensor::Allocate({dtype, {part.numel}});
      std::memcpy(copy.data, part.data, part.bytes());
      Check(part, Error(dtype));
      assert(SameBits(Summarize(part), Summarize(copy)));
    }
  }
}

void AnyNumberOfThreads() {
  for (DType dtype : {DType::kFloat32, DType::kInt8}) {
    const Tensor t = Filled(dtype, (5 << 17) + 77, Numbers(2));
    const Summary alone = Summarize(t);
    Check(t, Error(dtype));
    for (int threads : {1, 2, 4}) {
      const Summary s = Summarize(t, [&](int64_t n, const std::function<void(int64_t)>& f) {
        std::vector<std::thread> workers;
        for (int w = 0; w < threads; ++w) {
          // The last pieces first, as may happen.
          workers.emplace_back([&, w] {
            for (int64_t i = n - 1 - w; i >= 0; i -= threads) f(i);
          });
        }
        for (std::thread& worker : workers) worker.join();
      });
      assert(SameBits(s, alone));
    }
  }
}

// What every machine has to find.
void OnEveryMachine() {
  const Summary floats = Summarize(Filled(DType::kFloat32, 300000, Numbers(1)));
  assert(floats.mean == -0x1.de27955e124bap-9 && floats.std == 0x1.ce2407e31ba67p+5);
  assert(floats.l2 == 0x1.ee6274ab2fb1ep+14);
  const Summary doubles = Summarize(Filled(DType::kFloat64, 300000, Numbers(1)));
  assert(doubles.mean == -0x1.de235c44f3078p-9 && doubles.std == 0x1.ce2407de826d7p+5);
  assert(doubles.l2 == 0x1.ee6274a6440b5p+14);
}

}  // namespace

int main() {
  EveryType();
  NanAndInf();
  FarAndNear();
  SmallIntegersAreExact();
  TooLarge();
  MinusZeroAndEmpty();
  AnyAddress();
  AnyNumberOfThreads();
  OnEveryMachine();
  std::puts("ok");
}
