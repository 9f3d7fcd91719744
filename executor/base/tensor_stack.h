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

  // All values, the first one first, as rows of one tensor; they must be alike. `declared` is what
  // is known of them when there are none.
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
  std::vector<Tensor> entries_;
  size_t depth_ = 0;
  size_t peak_ = 0;
};

}  // namespace opstep
