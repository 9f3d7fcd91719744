// OPSTEP_WIDE, for loops over a tensor's memory: the widest vectors that the machine has, chosen
// when the library is loaded.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define OPSTEP_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define OPSTEP_WIDE
#endif
