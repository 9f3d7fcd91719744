// oneDNN for kernels: engine, formats, primitives and reordered tensors.
// Primitives are made for one thread when a plan is compiled, and hold no state of a run: several
// threads may run one at the same time.
#pragma once

#include <dnnl.hpp>
#include <initializer_list>
#include <optional>

namespace opstep {

using DnnlDesc = dnnl::memory::desc;
using DnnlDims = dnnl::memory::dims;

const dnnl::engine& DnnlEngine();

// A dense float32 tensor, row-major; `strides` when it is part of a larger one.
DnnlDesc RowMajor(const DnnlDims& dims);
DnnlDesc RowMajor(const DnnlDims& dims, const DnnlDims& strides);
// The format that suits the primitive best.
DnnlDesc AnyFormat(const DnnlDims& dims);

// Attributes of every primitive: we provide its working memory.
const dnnl::primitive_attr& DnnlAttr();

class DnnlPrimitive {
 public:
  struct Arg {
    int number;
    const DnnlDesc& desc;
    const void* data;
  };

  DnnlPrimitive() = default;
  DnnlPrimitive(dnnl::primitive primitive, DnnlDesc scratchpad)
      : primitive_(std::move(primitive)), scratchpad_(std::move(scratchpad)) {}

  void Run(std::initializer_list<Arg> args) const;

 private:
  dnnl::primitive primitive_;
  DnnlDesc scratchpad_;
};

// Copies a tensor from one format to another.
class DnnlReorder {
 public:
  DnnlReorder() = default;
  DnnlReorder(const DnnlDesc& from, const DnnlDesc& to);

  bool needed() const { return needed_; }
  const DnnlDesc& to() const { return to_; }
  const DnnlDesc& from() const { return from_; }
  void Run(const float* from, float* to) const;

 private:
  DnnlDesc from_, to_;
  bool needed_ = false;
  DnnlPrimitive primitive_;
};

}  // namespace opstep
