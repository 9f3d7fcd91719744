// The largest size of an element, and those beyond a limit, against plain loops.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/half.h"
#include "base/sizes.h"

using namespace opstep;

namespace {

void Check(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "FAILED: %s\n", what);
  std::abort();
}

template <typename T>
Tensor Make(DType dtype, const std::vector<T>& values) {
  Tensor t = Tensor::Allocate({dtype, {static_cast<int64_t>(values.size())}});
  if (!values.empty()) std::memcpy(t.data, values.data(), t.bytes());
  return t;
}

template <typename T, typename F>
void AgainstLoop(DType dtype, int64_t n, bool nan, F to_double) {
  std::mt19937 random(static_cast<uint32_t>(n));
  std::vector<T> values;
  for (int64_t i = 0; i < n; ++i) {
    float v = static_cast<float>(static_cast<int>(random() % 2001) - 1000);
    if (nan && i % 77 == 5) v = std::numeric_limits<float>::quiet_NaN();
    values.push_back(static_cast<T>(v));
  }
  double largest = 0;
  Beyond want;
  for (int64_t i = 0; i < n; ++i) {
    const double size = std::fabs(to_double(values[i]));
    if (size > largest) largest = size;
    if (size > 900 && want.count++ == 0) want.first = i;
  }
  const Tensor t = Make(dtype, values);
  Check(LargestSize(t) == largest, "largest");
  const Beyond found = CountBeyond(t, 900);
  Check(found.count == want.count && found.first == want.first, "beyond");
}

}  // namespace

int main() {
  for (const int64_t n : {0, 1, 7, 33, 1000, 10007}) {
    for (const bool nan : {false, true}) {
      AgainstLoop<float>(DType::kFloat32, n, nan, [](float v) { return double{v}; });
      AgainstLoop<double>(DType::kFloat64, n, nan, [](double v) { return v; });
      AgainstLoop<Half>(DType::kFloat16, n, nan, [](Half v) { return double{float{v}}; });
      AgainstLoop<BFloat16>(DType::kBFloat16, n, nan, [](BFloat16 v) { return double{float{v}}; });
    }
  }
  const float inf = std::numeric_limits<float>::infinity();
  Check(LargestSize(Make<float>(DType::kFloat32, {1, -inf})) == inf, "Inf is beyond every limit");
  Check(CountBeyond(Make<float>(DType::kFloat32, {1, -inf}), 1e300).first == 1, "where it is");
  // A limit that is no float: the next one above it counts, the limit rounded does not.
  Check(CountBeyond(Make<float>(DType::kFloat32, {0.1f}), 0.1).count == 1, "0.1f is above 0.1");
  Check(LargestSize(Make<int64_t>(DType::kInt64, {5})) == 0, "integers have no overflow");
  Check(LargestSize(Tensor()) == 0 && CountBeyond(Tensor(), 1).count == 0, "no memory");
}
