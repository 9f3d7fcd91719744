// Histograms and evenly spread samples of a tensor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor.h"

namespace opstep {

// Bins of equal width from low to high, the last one with its upper end: an element equal to `high`
// is in it, even if `low` is the same. Other elements, NaN and Inf are not counted.
struct Histogram {
  double low = 0, high = 0;
  std::vector<uint64_t> counts;
};
// low and high are finite, as min and max of a Summary are, or NaN: nothing is counted.
Histogram MakeHistogram(const Tensor& tensor, double low, double high, int bins);

// Evenly spread from the first element to the last, in rising order; all when there are at most
// `count`. The same for every tensor of the size.
std::vector<int64_t> SamplePositions(int64_t numel, int64_t count);
// The elements there, one after the other; `out` has room for them.
void CopyElements(const Tensor& tensor, std::span<const int64_t> positions, void* out);

}  // namespace opstep
