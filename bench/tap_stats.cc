// What bench/tap_stats.py measures: a tensor's statistics, and how fast its memory can be read at
// all.
#include "base/summary.h"
#include "base/wide.h"

#define OPSTEP_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

OPSTEP_WIDE uint64_t Sum(const uint64_t* p, int64_t n) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += p[i];
  return sum;
}

}  // namespace

OPSTEP_EXPORT uint64_t read_all(const void* p, int64_t bytes) {
  return Sum(static_cast<const uint64_t*>(p), bytes / 8);
}

OPSTEP_EXPORT opstep::Summary statistics(float* p, int64_t numel) {
  opstep::Tensor tensor({opstep::DType::kFloat32, {numel}});
  tensor.data = p;
  return opstep::Summarize(tensor);
}
