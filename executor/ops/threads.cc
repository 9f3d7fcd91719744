#include "ops/threads.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>

#include "base/error.h"

namespace opstep {
namespace {

constexpr int64_t kMost = 256;

std::atomic<int> count{1};
// Threads of the pool exist: a forked child has none of them, yet OpenMP would wait for them.
std::atomic<bool> pool_started{false};
std::atomic<bool> pool_lost{false};

void InChild() {
  pool_lost = pool_started.load();
  if (pool_lost) count = 1;
}

const bool kReady = [] {
  pthread_atfork(nullptr, nullptr, InChild);
  return true;
}();

}  // namespace

int NumThreads() { return count.load(std::memory_order_relaxed); }

void SetNumThreads(int64_t n) {
  OPSTEP_CHECK(n >= 1 && n <= kMost, "the number of threads is ", n, ": it must be 1 to ", kMost);
  OPSTEP_CHECK(n == 1 || !pool_lost,
               "this process was forked from one that had used several threads, so it can use 1 "
               "only: set the number of threads after forking, or spawn instead");
  count = static_cast<int>(n);
}

void RunPieces(int64_t n, PieceFn call, const void* f) {
  const int threads = static_cast<int>(std::min<int64_t>(NumThreads(), n));
  if (threads <= 1 || omp_in_parallel()) {
    for (int64_t i = 0; i < n; ++i) call(f, i);
    return;
  }
  pool_started.store(true, std::memory_order_relaxed);
  std::exception_ptr error;
  std::mutex mutex;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
  for (int64_t i = 0; i < n; ++i) {
    try {
      call(f, i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (error == nullptr) error = std::current_exception();
    }
  }
  if (error != nullptr) std::rethrow_exception(error);
}

}  // namespace opstep
