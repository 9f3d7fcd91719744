// Kernels compiled for the instruction set of this machine.
#pragma once

#include "ops/kernel.h"

// For everything between a kernel and its innermost loop: it must be compiled for the kernel's
// instruction set, and only inlining does that.
#define OPSTEP_INLINE [[gnu::always_inline]] inline
#define OPSTEP_INLINE_LAMBDA __attribute__((always_inline))

namespace opstep {

template <typename Body, typename... Args>
void RunBaseline(Args... args) {
  Body::Run(args...);
}

#if defined(__x86_64__)
template <typename Body, typename... Args>
[[gnu::target("avx2")]] void RunAvx2(Args... args) {
  Body::Run(args...);
}
#endif

// `Body::Run`, a kernel or a part of one, for this machine. No variant contracts to fma or reorders
// a sum, so all of them give the same bits (except for the sign of a NaN).
template <typename Body>
auto Best() {
  decltype(&Body::Run) run = RunBaseline<Body>;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) run = RunAvx2<Body>;
#endif
  return run;
}

}  // namespace opstep
