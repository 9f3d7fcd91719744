// Histograms and evenly spread samples of a tensor.
#include "base/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/scan.h"
#include "base/wide.h"

namespace opstep {
namespace {

struct Range {
  // Everything is multiplied by `unit` first: the widest range of doubles would overflow.
  double low, high, width, unit;
  double bins;
};

// Dividing last puts integers that lie on an edge into the bin above it. Elements outside get the
// number of bins.
OPSTEP_WIDE void FindBins(const double* p, int64_t n, Range range, int32_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    const double v = p[i] * range.unit;
    const double bin = (v - range.low) * range.bins / range.width;
    // Written so that NaN, when the width is 0, means the last bin.
    const double cut = bin < range.bins - 1 ? bin : range.bins - 1;
    const bool inside = v >= range.low && v <= range.high;
    out[i] = static_cast<int32_t>(inside ? cut : range.bins);
  }
}

}  // namespace

Histogram MakeHistogram(const Tensor& t, double low, double high, int bins) {
  Histogram histogram{low, high, std::vector<uint64_t>(static_cast<size_t>(std::max(bins, 0)))};
  if (!t || bins <= 0 || !(low <= high)) return histogram;
  const double unit = std::isfinite((high - low) * bins) ? 1 : 0x1p-64;
  const Range range{low * unit, high * unit, high * unit - low * unit, unit,
                    static_cast<double>(bins)};
  // Neighbours are often in the same bin and would wait for each other's count.
  constexpr size_t kTables = 4;
  const size_t size = static_cast<size_t>(bins) + 1;
  std::vector<uint64_t> tables(kTables * size);
  const Scans& scans = ScansFor(BestInstructions());
  double values[kScanBlock];
  int32_t found[kScanBlock] = {};
  for (int64_t i = 0; i < t.numel; i += kScanBlock) {
    const int64_t n = std::min(kScanBlock, t.numel - i);
    scans.to_doubles(t.dtype, t.as<char>() + static_cast<size_t>(i) * SizeOf(t.dtype), n, values);
    FindBins(values, n, range, found);
    for (int64_t j = 0; j < n; ++j) {
      ++tables[static_cast<size_t>(j) % kTables * size + static_cast<size_t>(found[j])];
    }
  }
  for (size_t bin = 0; bin + 1 < size; ++bin) {
    for (size_t table = 0; table < kTables; ++table) {
      histogram.counts[bin] += tables[table * size + bin];
    }
  }
  return histogram;
}

std::vector<int64_t> SamplePositions(int64_t numel, int64_t count) {
  count = std::clamp<int64_t>(count, 0, numel);
  std::vector<int64_t> positions(static_cast<size_t>(count));
  if (count < 2) return positions;
  // i * (numel - 1) / (count - 1), without a product that overflows.
  const int64_t step = (numel - 1) / (count - 1), rest = (numel - 1) % (count - 1);
  for (int64_t i = 0; i < count; ++i) {
    positions[static_cast<size_t>(i)] = i * step + i * rest / (count - 1);
  }
  return positions;
}

void CopyElements(const Tensor& t, std::span<const int64_t> positions, void* out) {
  const size_t size = SizeOf(t.dtype);
  char* to = static_cast<char*>(out);
  for (const int64_t position : positions) {
    std::memcpy(to, t.as<char>() + static_cast<size_t>(position) * size, size);
    to += size;
  }
}

}  // namespace opstep
