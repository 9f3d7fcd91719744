// Prefetching of memory that a loop writes but does not read.
// Such memory reaches the core only when it is requested: loops that write a large result to other
// memory request it a little ahead.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/lib/simd.h"

namespace opstep {

// Bytes of an output from which it is worth it.
inline constexpr int64_t kWorthAsking = 32 << 10;

// Whether it is worth it: `out` is large, and not the memory that is read.
template <typename T>
OPSTEP_INLINE bool WorthAsking(const T* out, const void* in, int64_t n) {
  constexpr int64_t kLarge = kWorthAsking / sizeof(T);
  return n >= kLarge && static_cast<const void*>(out) != in;
}

// Requests out[begin, end), to be written soon.
template <typename T>
OPSTEP_INLINE void AskFor(const T* out, int64_t begin, int64_t end) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = begin; i < end; i += kLine) __builtin_prefetch(out + i, 1);
}

// Calls body(begin, end), an OPSTEP_INLINE_LAMBDA, for ranges that make up [0, n), in order, each
// of which writes out[begin, end).
template <typename T, typename Body>
OPSTEP_INLINE void WriteInOrder(const T* out, const void* in, int64_t n, const Body& body) {
  if (!WorthAsking(out, in, n)) {
    body(0, n);
    return;
  }
  constexpr int64_t kAhead = 4096 / sizeof(T);
  for (int64_t begin = 0; begin < n; begin += kAhead) {
    const int64_t end = std::min(begin + kAhead, n);
    AskFor(out, end, std::min(end + kAhead, n));
    body(begin, end);
  }
}

}  // namespace opstep
