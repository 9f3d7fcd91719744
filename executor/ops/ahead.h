#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/simd.h"

namespace opstep {

// Memory that is written but not read reaches the core only as fast as it is asked for. Loops
// that write a large result elsewhere than they read from ask for it a little ahead.

// Whether it is worth it: `out` is large, and not the memory that is read.
template <typename T>
OPSTEP_INLINE bool WorthAsking(const T* out, const void* in, int64_t n) {
  return static_cast<const void*>(out) != in && n * static_cast<int64_t>(sizeof(T)) >= 32 << 10;
}

// Asks for out[begin, end), to be written soon.
template <typename T>
OPSTEP_INLINE void AskFor(const T* out, int64_t begin, int64_t end) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = begin; i < end; i += kLine) __builtin_prefetch(out + i, 1);
}

// Calls body(begin, end), an OPSTEP_INLINE_LAMBDA, for ranges that make up [0, n), in order, each
// of which writes out[begin, end).
template <typename T, typename Body>
OPSTEP_INLINE void WriteInOrder(const T* out, const void* in, int64_t n, const Body& body) {
  constexpr int64_t kAhead = 4096 / sizeof(T);
  const bool asks = WorthAsking(out, in, n);
  const int64_t step = asks ? kAhead : std::max<int64_t>(n, 1);
  for (int64_t begin = 0; begin < n; begin += step) {
    const int64_t end = std::min(begin + step, n);
    if (asks) AskFor(out, end, std::min(end + step, n));
    body(begin, end);
  }
}

}  // namespace opstep
