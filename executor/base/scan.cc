// Passes over the elements of a tensor, compiled for several sets of instructions.
#include "base/scan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/half.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define OPSTEP_X86 1
#endif

// The loops are written once, in plain C++ that compilers vectorise, and inlined into a function
// for each set of instructions. The next block is prefetched during the work on a block: the
// machine by itself does not prefetch far enough.
#define OPSTEP_INLINE [[gnu::always_inline]] inline

namespace opstep {
namespace {

constexpr int kLanes = 16;
// A block in which each lane adds up 32 elements in float.
constexpr int64_t kChunk = 32 * kLanes;

// The state of the lanes; each lane has every kLanes-th element.
template <typename T>
struct Lanes {
  T low[kLanes], high[kLanes];
  // Of a type for which every set of instructions can add a comparison's result.
  std::conditional_t<sizeof(T) == 4, int32_t, double> zeros[kLanes];
  double sums[kLanes], squares[kLanes];

  OPSTEP_INLINE explicit Lanes(T center) {
    for (int l = 0; l < kLanes; ++l) {
      low[l] = high[l] = center;
      zeros[l] = 0;
      sums[l] = squares[l] = 0;
    }
  }
  OPSTEP_INLINE void Look(int l, T v) {
    low[l] = v < low[l] ? v : low[l];
    high[l] = v > high[l] ? v : high[l];
    zeros[l] += v == T{0} ? 1 : 0;
  }
  OPSTEP_INLINE void Add(int l, T sum, T square) {
    sums[l] += static_cast<double>(sum);
    squares[l] += static_cast<double>(square);
  }
  OPSTEP_INLINE BlockSums Join() {
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int l = 0; l < half; ++l) {
        low[l] = low[l + half] < low[l] ? low[l + half] : low[l];
        high[l] = high[l + half] > high[l] ? high[l + half] : high[l];
        zeros[l] += zeros[l + half];
        sums[l] += sums[l + half];
        squares[l] += squares[l + half];
      }
    }
    return {low[0], high[0], sums[0], squares[0], static_cast<uint64_t>(zeros[0])};
  }
};

OPSTEP_INLINE BlockSums ScanFloats(const float* p, int64_t n, float center) {
  Lanes<float> lanes(center);
  const int64_t whole = n - n % kLanes;
  for (int64_t start = 0; start < whole; start += kChunk) {
    const int64_t end = std::min(whole, start + kChunk);
    float sums[kLanes] = {}, squares[kLanes] = {};
    for (int64_t i = start; i < end; i += kLanes) {
      __builtin_prefetch(p + i + kScanBlock);
      for (int l = 0; l < kLanes; ++l) {
        const float v = p[i + l], d = v - center;
        lanes.Look(l, v);
        sums[l] += d;
        squares[l] += d * d;
      }
    }
    for (int l = 0; l < kLanes; ++l) lanes.Add(l, sums[l], squares[l]);
  }
  for (int64_t i = whole; i < n; ++i) {
    const int l = static_cast<int>(i - whole);
    const float d = p[i] - center;
    lanes.Look(l, p[i]);
    lanes.Add(l, d, d * d);
  }
  return lanes.Join();
}

OPSTEP_INLINE BlockSums ScanDoubles(const double* p, int64_t n, double center) {
  Lanes<double> lanes(center);
  const int64_t whole = n - n % kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    __builtin_prefetch(p + i + kScanBlock);
    __builtin_prefetch(p + i + kScanBlock + kLanes / 2);
    for (int l = 0; l < kLanes; ++l) {
      const double v = p[i + l], d = v - center;
      lanes.Look(l, v);
      lanes.Add(l, d, d * d);
    }
  }
  for (int64_t i = whole; i < n; ++i) {
    const int l = static_cast<int>(i - whole);
    const double d = p[i] - center;
    lanes.Look(l, p[i]);
    lanes.Add(l, d, d * d);
  }
  return lanes.Join();
}

template <typename T, typename To, typename F>
OPSTEP_INLINE void ConvertWith(const void* from, int64_t n, To* out, F convert) {
  const T* p = static_cast<const T*>(from);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<To>(convert(p[i]));
}

template <typename To>
OPSTEP_INLINE void Convert(DType dtype, const void* p, int64_t n, To* out) {
  const auto same = [](auto v) __attribute__((always_inline)) { return v; };
  switch (dtype) {
    case DType::kFloat32:
      return ConvertWith<float>(p, n, out, same);
    case DType::kFloat64:
      return ConvertWith<double>(p, n, out, same);
    case DType::kFloat16:
      return ConvertWith<uint16_t>(
          p, n, out, [](uint16_t v) __attribute__((always_inline)) { return HalfToFloat(v); });
    case DType::kBFloat16:
      return ConvertWith<uint16_t>(
          p, n, out, [](uint16_t v) __attribute__((always_inline)) { return BFloat16ToFloat(v); });
    case DType::kInt8:
      return ConvertWith<int8_t>(p, n, out, same);
    case DType::kInt16:
      return ConvertWith<int16_t>(p, n, out, same);
    case DType::kInt32:
      return ConvertWith<int32_t>(p, n, out, same);
    case DType::kInt64:
      return ConvertWith<int64_t>(p, n, out, same);
    case DType::kUInt8:
      return ConvertWith<uint8_t>(p, n, out, same);
    case DType::kBool:
      return ConvertWith<uint8_t>(
          p, n, out, [](uint8_t v) __attribute__((always_inline)) { return v != 0 ? 1 : 0; });
    case DType::kNone:
      return;
  }
}

OPSTEP_INLINE Cleaned Clean(double* p, int64_t n) {
  constexpr double kMost = std::numeric_limits<double>::max();
  Cleaned r;
  for (int64_t i = 0; i < n; ++i) {
    if (std::abs(p[i]) <= kMost) {
      r.finite = p[i];
      break;
    }
  }
  uint64_t finite = 0;
  for (int64_t i = 0; i < n; ++i) {
    const bool good = std::abs(p[i]) <= kMost;
    r.nan += p[i] != p[i];
    finite += good;
    p[i] = good ? p[i] : r.finite;
  }
  r.inf = static_cast<uint64_t>(n) - finite - r.nan;
  return r;
}

#define OPSTEP_SCANS(NAME, ...)                                                           \
  struct NAME {                                                                           \
    __VA_ARGS__ static BlockSums Floats(const float* p, int64_t n, float center) {        \
      return ScanFloats(p, n, center);                                                    \
    }                                                                                     \
    __VA_ARGS__ static BlockSums Doubles(const double* p, int64_t n, double center) {     \
      return ScanDoubles(p, n, center);                                                   \
    }                                                                                     \
    __VA_ARGS__ static void ToFloats(DType d, const void* p, int64_t n, float* out) {     \
      Convert(d, p, n, out);                                                              \
    }                                                                                     \
    __VA_ARGS__ static void ToDoubles(DType d, const void* p, int64_t n, double* out) {   \
      Convert(d, p, n, out);                                                              \
    }                                                                                     \
    __VA_ARGS__ static Cleaned CleanDoubles(double* p, int64_t n) { return Clean(p, n); } \
    static constexpr Scans kScans{Floats, Doubles, ToFloats, ToDoubles, CleanDoubles};    \
  }

OPSTEP_SCANS(Portable, );
#ifdef OPSTEP_X86
OPSTEP_SCANS(Avx2, __attribute__((target("avx2"))));
OPSTEP_SCANS(Avx512, __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl"))));
#endif

}  // namespace

bool MachineHas(Instructions instructions) {
#ifdef OPSTEP_X86
  if (instructions == Instructions::kAvx2) return __builtin_cpu_supports("avx2");
  if (instructions == Instructions::kAvx512) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  }
#endif
  return instructions == Instructions::kPortable;
}

Instructions BestInstructions() {
  static const Instructions best = MachineHas(Instructions::kAvx512) ? Instructions::kAvx512
                                   : MachineHas(Instructions::kAvx2) ? Instructions::kAvx2
                                                                     : Instructions::kPortable;
  return best;
}

const Scans& ScansFor(Instructions instructions) {
#ifdef OPSTEP_X86
  if (instructions == Instructions::kAvx512) return Avx512::kScans;
  if (instructions == Instructions::kAvx2) return Avx2::kScans;
#endif
  return Portable::kScans;
}

}  // namespace opstep
