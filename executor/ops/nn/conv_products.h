// The products of a convolution for any float type: on oneDNN where it can, else in plain loops.
// Made when a plan is compiled.
#pragma once

#include <algorithm>
#include <memory>

#include "ops/lib/numeric.h"
#include "ops/nn/conv_onednn.h"
#include "ops/nn/conv_shape.h"
#include "ops/op.h"

namespace opstep {

template <typename T>
struct ConvProducts {
  ConvShape shape;
  // The wanted products that oneDNN has.
  std::shared_ptr<const ConvForward> forward;
  std::shared_ptr<const ConvBackData> back_data;
  std::shared_ptr<const ConvBackWeights> back_weights;

  explicit ConvProducts(const ConvShape& s) : shape(s) {}

  // Y = X * W + B; B may be null.
  void Forward(const T* x, const T* w, const T* b, T* y) const {
    if constexpr (std::is_same_v<T, float>) {
      if (forward != nullptr) return forward->Run(x, w, b, y);
    }
    SpreadBias(b, shape.batch, shape.out_channels, shape.window.out_size(), y);
    const int64_t step = shape.window.stride[2];
    ForEachTapRun(shape, [&](int64_t k, int64_t xi, int64_t yi, int64_t n) {
      const T weight = w[k];
      for (int64_t i = 0; i < n; ++i) y[yi + i] += weight * x[xi + i * step];
    });
  }

  void BackData(const T* dy, const T* w, T* dx) const {
    if constexpr (std::is_same_v<T, float>) {
      if (back_data != nullptr) return back_data->Run(dy, w, dx);
    }
    std::fill_n(dx, shape.batch * shape.x_image(), T(0));
    const int64_t step = shape.window.stride[2];
    ForEachTapRun(shape, [&](int64_t k, int64_t xi, int64_t yi, int64_t n) {
      const T weight = w[k];
      for (int64_t i = 0; i < n; ++i) dx[xi + i * step] += weight * dy[yi + i];
    });
  }

  void BackWeights(const T* x, const T* dy, T* dw) const {
    if constexpr (std::is_same_v<T, float>) {
      if (back_weights != nullptr) return back_weights->Run(x, dy, dw);
    }
    std::fill_n(dw, shape.weights(), T(0));
    const int64_t step = shape.window.stride[2];
    ForEachTapRun(shape, [&](int64_t k, int64_t xi, int64_t yi, int64_t n) {
      dw[k] += SumRun<T>(n, [&](int64_t i) { return x[xi + i * step] * dy[yi + i]; });
    });
  }

  // Fills [batch, channels, size] with a value for each channel, 0 without b.
  static void SpreadBias(const T* b, int64_t batch, int64_t channels, int64_t size, T* y) {
    for (int64_t i = 0; i < batch * channels; ++i) {
      std::fill_n(y + i * size, size, b == nullptr ? T(0) : b[i % channels]);
    }
  }

  // db[c] = the sum of dy [batch, channels, size] over the others.
  static void BackBias(const T* dy, int64_t batch, int64_t channels, int64_t size, T* db) {
    for (int64_t c = 0; c < channels; ++c) {
      T sum = 0;
      for (int64_t n = 0; n < batch; ++n) {
        const T* from = dy + (n * channels + c) * size;
        sum += SumRun<T>(size, [&](int64_t i) { return from[i]; });
      }
      db[c] = sum;
    }
  }
};

// The slots of the gradient op of a convolution, transposed or not; `op` has the attributes.
inline Op ConvGradOp(Op op) {
  op.In("X", "as in the forward op", kFloats)
      .In("W", "as in the forward op", kFloats)
      .In("dout", "gradient of out", kFloats)
      .Out("dX", "gradient of X", kFloats)
      .Optional()
      .Out("dW", "gradient of W", kFloats)
      .Optional()
      .Out("dB", "gradient of B", kFloats)
      .Optional();
  return op;
}

}  // namespace opstep
