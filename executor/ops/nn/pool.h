// Pooling: a window slides over each channel of each image (a plane) by itself.
#pragma once

#include "ops/lib/dispatch.h"
#include "ops/lib/numeric.h"
#include "ops/lib/parallel_ranges.h"
#include "ops/lib/shape_rules.h"
#include "ops/nn/window.h"

namespace opstep {

struct PoolShape {
  // A tap along the last dimension: the places where it lies inside, and its element at the first.
  struct Column {
    Places at;
    int64_t x = 0;
  };

  int64_t planes = 0;
  Window window;
  std::vector<Column> columns;
  // The cost of a plane, for threads.
  int64_t cost() const { return window.out_size() * window.taps(); }
};

inline PoolShape MakePoolShape(const OpView& op, const Dims& x) {
  const int rank = x.rank() - 2;
  const std::vector<int64_t> kernel = op.Ints("kernel_shape");
  OPSTEP_CHECK(!kernel.empty(), "kernel_shape is empty: it must have ", rank, " numbers");
  SpatialAttr(op, "kernel_shape", rank, 1, 1);
  constexpr int64_t kLargest = 1 << 16;
  for (const int64_t size : kernel)
    OPSTEP_CHECK(size <= kLargest, "kernel_shape holds ", size, ": at most ", kLargest,
                 " are possible");
  PoolShape shape{0, MakeWindow(op, x, kernel, op.Bool("ceil_mode")), {}};
  for (int i = 0; i < Window::kRank; ++i) {
    const int64_t padding = std::max(shape.window.begin[i], shape.window.end[i]);
    OPSTEP_CHECK(padding < shape.window.reach(i), "a padding of ", padding,
                 " leaves nothing to a window of ", shape.window.reach(i),
                 ": it must be smaller than the window");
  }
  if (!x.known()) return shape;
  shape.planes = x[0] * x[1];
  const Window& w = shape.window;
  for (int64_t tap = 0; tap < w.kernel[2]; ++tap) {
    const Places at = PlacesInside(w, 2, tap);
    shape.columns.push_back({at, at.first * w.stride[2] + tap * w.dilation[2] - w.begin[2]});
  }
  return shape;
}

inline void PoolRule(ShapeContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  CheckSpatial(x);
  const Dims out = OutDims(MakePoolShape(ctx.op(), x).window, x, x[1]);
  ctx.set_out(0, {ctx.in(0).dtype, out});
}

inline Op PoolOp(std::string type) {
  Op op(std::move(type));
  op.Required("kernel_shape", AttrType::kInts, "size of the window in each dimension");
  WindowAttrs(op).Attr(BoolAttr("ceil_mode", false),
                       "a last window that lies partly outside counts too");
  return op;
}

// Calls f(tap, x offset, places) for each tap of the windows in the output row (i, j) of a plane:
// `places` along the last dimension; the offset is that of the first place.
template <typename F>
OPSTEP_INLINE void ForEachTap(const PoolShape& s, int64_t i, int64_t j, F&& f) {
  const Window& w = s.window;
  const int64_t columns = w.kernel[2];
  for (int64_t a = 0; a < w.kernel[0]; ++a) {
    const int64_t x0 = i * w.stride[0] + a * w.dilation[0] - w.begin[0];
    if (x0 < 0 || x0 >= w.in[0]) continue;
    for (int64_t b = 0; b < w.kernel[1]; ++b) {
      const int64_t x1 = j * w.stride[1] + b * w.dilation[1] - w.begin[1];
      if (x1 < 0 || x1 >= w.in[1]) continue;
      const int64_t row = (x0 * w.in[1] + x1) * w.in[2];
      for (int64_t c = 0; c < columns; ++c) {
        const auto& [at, x2] = s.columns[c];
        if (at.first < at.last) f((a * w.kernel[1] + b) * columns + c, row + x2, at);
      }
    }
  }
}

// The number of counted taps of the window at each place of a dimension: those in the input, with
// `padding` also those in its padding.
inline std::vector<int64_t> CountTaps(const Window& w, int dim, bool padding) {
  std::vector<int64_t> counts(w.out[dim]);
  const int64_t low = padding ? -w.begin[dim] : 0;
  const int64_t high = w.in[dim] + (padding ? w.end[dim] : 0);
  for (int64_t place = 0; place < w.out[dim]; ++place) {
    for (int64_t tap = 0; tap < w.kernel[dim]; ++tap) {
      const int64_t at = place * w.stride[dim] + tap * w.dilation[dim] - w.begin[dim];
      counts[place] += at >= low && at < high;
    }
  }
  return counts;
}

}  // namespace opstep
