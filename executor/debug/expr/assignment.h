// Assignment: values that fit a dtype, and the part of a tensor that a target names.
#pragma once

#include <string_view>

#include "debug/expr/node.h"

namespace opstep::expr {

// The value in row-major memory of another dtype. An element that does not fit is an Error: 300
// for int8, 2.5 for int64, 1e300 for float32.
Tensor Fitted(const Value& value, DType dtype, Budget& budget);

// The place in a tensor's memory of the part that a target names.
class TargetPart {
 public:
  TargetPart(const Node& target, Tensor& tensor, Context& context);

  // Broadcast to the part's shape; the dtype is the tensor's. Does all of it or throws before.
  void Put(const Tensor& from, Budget& budget) const;
  // Only into a part that is contiguous.
  void Write(uint64_t offset, std::string_view bytes) const;

 private:
  char* const memory_;
  const size_t bytes_;
  // The part as a view of the tensor's memory; or, for lists and masks, the positions of its
  // elements.
  Value part_;
  bool positions_ = false;
};

}  // namespace opstep::expr
