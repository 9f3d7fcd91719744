// TensorStack: values that a loop saves for its gradient, within a limit of memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor.h"

namespace opstep {

// The limit in bytes for all that loops of the process keep: otherwise an endless loop would take
// all memory.
class StackMemory {
 public:
  static int64_t limit() { return limit_.load(std::memory_order_relaxed); }
  static void set_limit(int64_t bytes) { limit_.store(bytes, std::memory_order_relaxed); }

  static void Take(int64_t bytes) {
    if (Add(bytes)) [[likely]]
      return;
    Give(bytes);
    Refuse("");
  }
  // Counts the bytes; returns whether they are within the limit.
  static bool Add(int64_t bytes) {
    return used_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= limit();
  }
  [[noreturn]] static void Refuse(const std::string& where) {
    Fail("the values that loops keep for their gradients have reached the limit of ", limit(),
         " bytes", where,
         ": does the loop end? Run fewer iterations, set stop_gradient where no gradient is "
         "needed, or allow more with opstep.set_loop_memory");
  }
  static void Give(int64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  static inline std::atomic<int64_t> used_{0};
  static inline std::atomic<int64_t> limit_{INT64_MAX};
};

// Copies of tensors, last in first out. Memory is kept for the next run.
class TensorStack {
 public:
  TensorStack() = default;
  TensorStack(const TensorStack&) = delete;
  ~TensorStack() { StackMemory::Give(held_); }

  void Push(const Tensor& value) {
    const int64_t size = SizeOf(value);
    StackMemory::Take(size);
    held_ += size;
    if (depth_ == entries_.size()) entries_.emplace_back();
    Tensor& entry = entries_[depth_];
    if (!entry.owner || entry.type() != value.type()) entry = Tensor::Allocate(value.type());
    if (value.bytes() > 0) std::memcpy(entry.data, value.data, value.bytes());
    ++depth_;
    peak_ = std::max(peak_, depth_);
  }

  void Pop(Tensor& to) {
    OPSTEP_CHECK(depth_ > 0, "there is no saved value left");
    const Tensor& entry = entries_[--depth_];
    OPSTEP_CHECK(entry.type() == to.type(), "the saved value is ", entry.type().ToString(), " but ",
                 to.type().ToString(), " is expected");
    if (entry.bytes() > 0) std::memcpy(to.data, entry.data, entry.bytes());
    held_ -= SizeOf(entry);
    StackMemory::Give(SizeOf(entry));
  }

  // Releases memory that the latest run did not need.
  void Clear() {
    if (entries_.size() > 2 * peak_ + 64) entries_.resize(2 * peak_);
    depth_ = peak_ = 0;
    StackMemory::Give(std::exchange(held_, 0));
  }
  size_t depth() const { return depth_; }

  // All values, the first one first, as rows of one tensor; they must have one type. `declared` is
  // their type when there are none.
  Tensor All(const std::string& name, const VarType& declared) const {
    VarType type = declared;
    if (depth_ > 0) type = entries_[0].type();
    if (!type.dims.known()) type.dims = {};
    if (type.dtype == DType::kNone) type.dtype = DType::kFloat32;
    Dims dims{static_cast<int64_t>(depth_)};
    for (const int64_t size : type.dims) dims.push_back(size);
    Tensor all = Tensor::Allocate({type.dtype, dims});
    for (size_t i = 0; i < depth_; ++i) {
      OPSTEP_CHECK(entries_[i].type() == type, "cannot give the values of '", name,
                   "' as one array: there are ", type.ToString(), " and ",
                   entries_[i].type().ToString(), " among them");
      if (type.dims.numel() > 0)
        std::memcpy(all.as<char>() + i * entries_[i].bytes(), entries_[i].data,
                    entries_[i].bytes());
    }
    return all;
  }

 private:
  // Includes the tensor object and the block that holds its memory.
  static int64_t SizeOf(const Tensor& value) {
    return static_cast<int64_t>(value.bytes() + sizeof(Tensor) + 128);
  }

  std::vector<Tensor> entries_;
  size_t depth_ = 0;
  size_t peak_ = 0;
  int64_t held_ = 0;
};

}  // namespace opstep
