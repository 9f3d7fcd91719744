#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/tensor.h"

namespace opstep {

// Copies of tensors, last in first out. Memory is kept for the next run.
class TensorStack {
 public:
  void Push(const Tensor& value) {
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
  }

  // Memory that the latest run did not need is given back.
  void Clear() {
    if (entries_.size() > 2 * peak_ + 64) entries_.resize(2 * peak_);
    depth_ = peak_ = 0;
  }
  size_t depth() const { return depth_; }

 private:
  std::vector<Tensor> entries_;
  size_t depth_ = 0;
  size_t peak_ = 0;
};

}  // namespace opstep
