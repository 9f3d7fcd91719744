// Random numbers that depend on a seed and an index only.
#pragma once

#include <cstdint>

namespace opstep {

// SplitMix64's finaliser: every bit of x changes about half of the bits of the result.
constexpr uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Random bits that depend on a seed and the element's index only, so that threads, platforms and
// the order of evaluation do not matter.
class CounterRandom {
 public:
  explicit CounterRandom(int64_t seed) : key_(Mix(static_cast<uint64_t>(seed) + kStep)) {}
  uint64_t Bits(uint64_t index) const { return Mix(key_ + index * kStep); }
  // In [0, 1): multiples of 2^-53.
  double Unit(uint64_t index) const { return static_cast<double>(Bits(index) >> 11) * 0x1p-53; }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
  uint64_t key_;
};

}  // namespace opstep
