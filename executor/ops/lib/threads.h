// The one place that knows threads: ParallelFor over the pieces of a kernel's work.
// A kernel splits its work into pieces that depend on sizes only, so that results are the same with
// any number of threads. Calls of a piece (also oneDNN) run on the piece's own thread.
#pragma once

#include <omp.h>

#include <cstdint>
#include <type_traits>

namespace opstep {

// The number of threads that a run may use for one op; at first 1.
int NumThreads();
void SetNumThreads(int64_t n);

using PieceFn = void (*)(const void* f, int64_t i);
void RunPieces(int64_t n, PieceFn call, const void* f);

// Calls f(i) for each i in [0, n), in any order, maybe at the same time. An exception of a piece is
// thrown here.
template <typename F>
void ParallelFor(int64_t n, const F& f) {
  RunPieces(
      n, [](const void* g, int64_t i) { (*static_cast<const F*>(g))(i); }, &f);
}

// One thread for a call into oneDNN, with the caller's setting restored afterwards. Our threads are
// not OpenMP threads, so OpenMP's never start.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;

 private:
  const int before_;
};

}  // namespace opstep
