// Dims, VarType and Tensor: sizes, text, owned memory.
#include "base/tensor.h"

#include <algorithm>
#include <limits>

namespace opstep {

Dims::Dims(std::initializer_list<int64_t> sizes)
    : Dims(std::span<const int64_t>(sizes.begin(), sizes.size())) {}

Dims::Dims(std::span<const int64_t> sizes) {
  for (int64_t size : sizes) push_back(size);
}

void Dims::push_back(int64_t size) {
  OPSTEP_CHECK(rank_ < kMaxRank, "a tensor has at most ", kMaxRank, " dimensions");
  sizes_[rank_++] = size;
}

bool Dims::known() const {
  return std::all_of(begin(), end(), [](int64_t size) { return size >= 0; });
}

int64_t Dims::numel() const {
  int64_t n = 1;
  for (int64_t size : *this) {
    if (__builtin_mul_overflow(n, size, &n))
      Fail("a tensor of shape ", ToString(), " is too large");
  }
  return n;
}

std::string Dims::ToString() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) {
    if (i > 0) text += ", ";
    text += sizes_[i] < 0 ? "?" : std::to_string(sizes_[i]);
  }
  return text + "]";
}

bool Dims::operator==(const Dims& other) const {
  return rank_ == other.rank_ && std::equal(begin(), end(), other.begin());
}

std::string VarType::ToString() const { return std::string(NameOf(dtype)) + dims.ToString(); }

Tensor::Tensor(const VarType& type) : dtype(type.dtype), dims(type.dims) {
  numel = dims.numel();
  // Also when a size of 0 leaves no elements: others multiply the sizes in another order.
  int64_t largest = 1;
  for (const int64_t size : dims) {
    const bool fits = !__builtin_mul_overflow(largest, std::max<int64_t>(size, 1), &largest) &&
                      largest <= std::numeric_limits<int64_t>::max() / 16;
    OPSTEP_CHECK(fits, "a tensor of shape ", dims.ToString(), " is too large");
  }
}

Tensor Tensor::Allocate(const VarType& type) {
  Tensor tensor(type);
  tensor.owner = AllocateAligned(tensor.bytes());
  tensor.data = tensor.owner.get();
  return tensor;
}

}  // namespace opstep
