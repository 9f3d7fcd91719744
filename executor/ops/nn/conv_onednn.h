// The three products of a convolution on oneDNN, in float32.
// Tensors are row-major outside; inside they have oneDNN's preferred format. Each product is split
// into pieces for threads by its sizes alone. `Make` returns null where oneDNN has no
// implementation. A W that is known by then is converted once.
#pragma once

#include <memory>

#include "ops/nn/conv_shape.h"

namespace opstep {

// Y = X * W + B; B may be null. Uses our own code where that is faster.
class ConvForward {
 public:
  static std::shared_ptr<const ConvForward> Make(const ConvShape& shape, bool bias,
                                                 const Tensor* w = nullptr);
  virtual ~ConvForward() = default;
  virtual void Run(const float* x, const float* w, const float* b, float* y) const = 0;
};

// dX from dY and W.
class ConvBackData {
 public:
  static std::shared_ptr<const ConvBackData> Make(const ConvShape& shape,
                                                  const Tensor* w = nullptr);
  virtual ~ConvBackData() = default;
  virtual void Run(const float* dy, const float* w, float* dx) const = 0;
};

// dW from X and dY.
class ConvBackWeights {
 public:
  static std::shared_ptr<const ConvBackWeights> Make(const ConvShape& shape);
  virtual ~ConvBackWeights() = default;
  virtual void Run(const float* x, const float* dy, float* dw) const = 0;
};

}  // namespace opstep
