// Random bits for each element of a tensor, in loops that are vectorised.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/kernel.h"
#include "ops/lib/random.h"
#include "ops/lib/simd.h"

namespace opstep {

// 31 random bits for each element of a tensor from a seed, a count of runs and the element's index,
// in 32-bit arithmetic, so that loops over it are vectorised.
class ElementRandom {
 public:
  // The same seed gives other numbers for each count.
  ElementRandom(int64_t seed, int64_t count)
      : keys_(static_cast<int64_t>(CounterRandom(seed).Bits(static_cast<uint64_t>(count)))) {}

  // Calls f(i, bits) for i from 0 to n - 1; bits are below 2^31.
  template <typename F>
  OPSTEP_INLINE void ForEach(int64_t n, F&& f) const {
    constexpr int64_t kBlock = int64_t{1} << 30;
    for (int64_t start = 0; start < n; start += kBlock) {
      const uint64_t keys = keys_.Bits(static_cast<uint64_t>(start / kBlock));
      const uint32_t first = static_cast<uint32_t>(keys),
                     second = static_cast<uint32_t>(keys >> 32);
      const int32_t size = static_cast<int32_t>(std::min(kBlock, n - start));
#pragma GCC ivdep
      for (int32_t i = 0; i < size; ++i) {
        uint32_t x = static_cast<uint32_t>(i) * 0x9e3779b1u + first;
        x = (x ^ (x >> 16)) * 0x85ebca6bu + second;
        x = (x ^ (x >> 13)) * 0xc2b2ae35u;
        f(start + i, static_cast<int32_t>((x ^ (x >> 16)) >> 1));
      }
    }
  }

 private:
  CounterRandom keys_;
};

// The input `count`, 0 when it is not given.
inline int64_t CountOf(const Tensor& count) { return count ? *count.as<int64_t>() : 0; }

inline void CheckCount(const Dims& count) {
  OPSTEP_CHECK(!count.known() || count.numel() == 1, "count is ", count.ToString(),
               ": it must have one element");
}

inline constexpr char kCountDoc[] =
    "one element, different in each run: increment it in the program; without it every run "
    "gives the same numbers";

// Python for oracles: the array `bits`, shaped as X.
inline constexpr char kBitsOracle[] = R"(
def mix(x):
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
step = np.uint64(0x9E3779B97F4A7C15)
runs = np.array([count.item() if 'count' in globals() else 0]).astype(np.uint64)
run = mix(mix(np.array([seed]).astype(np.uint64) + step) + runs * step)
keys = mix(mix(run + step))
x = np.arange(X.size, dtype=np.uint32) * np.uint32(0x9E3779B1) + keys.astype(np.uint32)
x = (x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B) + (keys >> np.uint64(32)).astype(np.uint32)
x = (x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE35)
bits = ((x ^ (x >> np.uint32(16))) >> np.uint32(1)).reshape(X.shape)
)";

}  // namespace opstep
