// Splits [0, n) into ranges for threads, in loops compiled for this machine.
#pragma once

#include <algorithm>

#include "ops/lib/simd.h"
#include "ops/lib/threads.h"

namespace opstep {

template <typename Body>
void RunRange(const Body& body, int64_t begin, int64_t end) {
  body(begin, end);
}

#if defined(__x86_64__)
template <typename Body>
[[gnu::target("avx2")]] void RunRangeAvx2(const Body& body, int64_t begin, int64_t end) {
  body(begin, end);
}
#endif

// Calls body(begin, end), an OPSTEP_INLINE_LAMBDA, for ranges that make up [0, n), compiled for
// this machine. The result for an item must not depend on its range. `cost` is the cost of an item,
// roughly in elements: small work stays on one thread.
template <typename Body>
void ParallelRanges(int64_t n, int64_t cost, const Body& body) {
  constexpr int64_t kWorthAThread = 1 << 15;
  auto run = RunRange<Body>;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) run = RunRangeAvx2<Body>;
#endif
  const int64_t threads = NumThreads();
  if (threads == 1 || n * cost < 2 * kWorthAThread) {
    if (n > 0) run(body, 0, n);
    return;
  }
  const int64_t ranges = std::min({n, 4 * threads, n * cost / kWorthAThread});
  ParallelFor(ranges, [&](int64_t i) { run(body, n * i / ranges, n * (i + 1) / ranges); });
}

}  // namespace opstep
