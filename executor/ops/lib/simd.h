// Kernels compiled for the instruction set of this machine.
#pragma once

#include "ops/kernel.h"

// For everything between a kernel and its innermost loop: it must be compiled for the kernel's
// instruction set, and only inlining does that.
#define OPSTEP_INLINE [[gnu::always_inline]] inline
#define OPSTEP_INLINE_LAMBDA __attribute__((always_inline))

namespace opstep {

template <typename Body>
void RunBaseline(KernelContext& ctx) {
  Body::Run(ctx);
}

#if defined(__x86_64__)
template <typename Body>
[[gnu::target("avx2")]] void RunAvx2(KernelContext& ctx) {
  Body::Run(ctx);
}
#endif

// The kernel `Body::Run` for this machine. No variant contracts to fma or reorders a sum, so all of
// them give the same bits (except for the sign of a NaN).
template <typename Body>
KernelFn Best() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return RunAvx2<Body>;
#endif
  return RunBaseline<Body>;
}

}  // namespace opstep
