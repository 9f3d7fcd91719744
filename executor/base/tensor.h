// Dims, VarType and Tensor: a dense row-major array.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

#include "base/dtype.h"

namespace opstep {

// Sizes of a tensor, at most kMaxRank of them; -1 is a size not known yet.
class Dims {
 public:
  static constexpr int kMaxRank = 8;

  Dims() = default;
  Dims(std::initializer_list<int64_t> sizes);
  explicit Dims(std::span<const int64_t> sizes);

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return sizes_[i]; }
  int64_t& operator[](int i) { return sizes_[i]; }
  const int64_t* begin() const { return sizes_.data(); }
  const int64_t* end() const { return sizes_.data() + rank_; }
  void push_back(int64_t size);
  // True when no size is -1.
  bool known() const;
  // The product; all sizes must be known.
  int64_t numel() const;
  // "[128, ?]"
  std::string ToString() const;
  bool operator==(const Dims& other) const;

 private:
  std::array<int64_t, kMaxRank> sizes_{};
  int rank_ = 0;
};

// The type of a variable, known before its value.
struct VarType {
  DType dtype = DType::kNone;
  Dims dims;
  bool operator==(const VarType&) const = default;
  // "float32[128, 10]"
  std::string ToString() const;
};

inline constexpr size_t kAlignment = 64;
inline constexpr size_t Align(size_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

// Bytes at an address divisible by kAlignment, freed with the last owner.
std::shared_ptr<void> AllocateAligned(size_t bytes);
// The same in huge pages, where the system has them: sequential access to large memory is faster
// there. The first use of each page takes longer, up to milliseconds.
std::shared_ptr<void> AllocateHuge(size_t bytes);

// A dense row-major tensor. `data` may belong to an arena (owner empty), to `owner`, or be null: no
// value.
struct Tensor {
  DType dtype = DType::kNone;
  Dims dims;
  int64_t numel = 0;
  void* data = nullptr;
  std::shared_ptr<void> owner;

  Tensor() = default;
  // Without memory.
  explicit Tensor(const VarType& type);
  // With its own memory, not initialised.
  static Tensor Allocate(const VarType& type);

  template <typename T>
  T* as() {
    return static_cast<T*>(data);
  }
  template <typename T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
  explicit operator bool() const { return data != nullptr; }
  size_t bytes() const { return static_cast<size_t>(numel) * SizeOf(dtype); }
  VarType type() const { return {dtype, dims}; }
};

}  // namespace opstep
