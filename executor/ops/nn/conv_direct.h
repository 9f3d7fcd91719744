// Our own convolution, which is faster than oneDNN for some shapes and machines.
#pragma once

#include <memory>

#include "ops/nn/conv_onednn.h"

namespace opstep {

// Y = X * W + B with tensors that stay row-major, for machines and shapes where that is faster than
// oneDNN with its formats. Null where it is not.
std::shared_ptr<const ConvForward> MakeDirectConv(const ConvShape& shape, const Tensor* w);

}  // namespace opstep
