#pragma once

#include <omp.h>

namespace opstep {

// One thread for a call into oneDNN, and the caller's own setting back afterwards. With more
// threads GNU OpenMP spins while it waits, so a small product takes milliseconds when another
// process is busy.
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
