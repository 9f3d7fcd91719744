// The sizes of a convolution, and the loop over its weights and places.
#pragma once

#include "ops/lib/simd.h"
#include "ops/nn/window.h"

namespace opstep {

// A convolution as its three tensors: X [batch, in, ...], W [out, in / groups, ...] and
// Y [batch, out, ...]. A transposed convolution is the same with X and Y changing sides.
struct ConvShape {
  int64_t batch = 0, in_channels = 0, out_channels = 0, groups = 1;
  Window window;
  int rank = 2;  // spatial dimensions

  int64_t x_image() const { return in_channels * window.in_size(); }
  int64_t y_image() const { return out_channels * window.out_size(); }
  int64_t group_in() const { return in_channels / groups; }
  int64_t group_out() const { return out_channels / groups; }
  int64_t weights() const { return out_channels * group_in() * window.taps(); }
  double flops() const { return 2.0 * batch * window.out_size() * weights(); }
};

// Calls f(weight, x offset, y offset, n) for each weight and each run of n places along the last
// dimension that it affects; X goes in steps of the last stride, Y in steps of 1.
template <typename F>
OPSTEP_INLINE void ForEachTapRun(const ConvShape& s, F&& f) {
  const Window& w = s.window;
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t o = 0; o < s.out_channels; ++o) {
      const int64_t first_in = o / s.group_out() * s.group_in();
      for (int64_t c = 0; c < s.group_in(); ++c) {
        const int64_t x = n * s.x_image() + (first_in + c) * w.in_size();
        const int64_t y = n * s.y_image() + o * w.out_size();
        int64_t weight = (o * s.group_in() + c) * w.taps();
        for (int64_t a = 0; a < w.kernel[0]; ++a) {
          const Places at_a = PlacesInside(w, 0, a);
          for (int64_t b = 0; b < w.kernel[1]; ++b) {
            const Places at_b = PlacesInside(w, 1, b);
            for (int64_t e = 0; e < w.kernel[2]; ++e, ++weight) {
              const Places at = PlacesInside(w, 2, e);
              for (int64_t i = at_a.first; i < at_a.last; ++i) {
                const int64_t x0 = i * w.stride[0] + a * w.dilation[0] - w.begin[0];
                for (int64_t j = at_b.first; j < at_b.last; ++j) {
                  const int64_t x1 = j * w.stride[1] + b * w.dilation[1] - w.begin[1];
                  const int64_t x2 = at.first * w.stride[2] + e * w.dilation[2] - w.begin[2];
                  f(weight, x + (x0 * w.in[1] + x1) * w.in[2] + x2,
                    y + (i * w.out[1] + j) * w.out[2] + at.first, at.last - at.first);
                }
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace opstep
