// Resizes an image into a tensor.
#pragma once

#include "base/tensor.h"
#include "data/image_decode.h"

namespace opstep {

enum class ImageLayout { kHwc, kChw };

// The image, resized to the tensor's height and width: uint8, or float32 from 0 to 1. Bilinear;
// when it shrinks, an element averages all pixels that it covers.
void PutImage(const Image& image, ImageLayout layout, Tensor& to);

}  // namespace opstep
