// max_pool: the largest element in each place of a sliding window, and its gradient.
#include <limits>

#include "ops/lib/scratch.h"
#include "ops/nn/pool.h"

namespace opstep {
namespace {

template <typename T>
constexpr T kLowest = -std::numeric_limits<T>::infinity();

template <typename T>
void Run(KernelContext& ctx) {
  const PoolShape& s = ctx.state<PoolShape>();
  const T* x = ctx.in(0).as<T>();
  T* out = ctx.out(0).as<T>();
  ParallelRanges(s.planes, s.cost(), [&](int64_t begin, int64_t end) OPSTEP_INLINE_LAMBDA {
    const Window& w = s.window;
    const int64_t step = w.stride[2];
    for (int64_t plane = begin; plane < end; ++plane) {
      const T* from = x + plane * w.in_size();
      for (int64_t row = 0; row < w.out[0] * w.out[1]; ++row) {
        T* to = out + plane * w.out_size() + row * w.out[2];
        std::fill_n(to, w.out[2], kLowest<T>);
        ForEachTap(s, row / w.out[1], row % w.out[1],
                   [&](int64_t, int64_t offset, Places at) OPSTEP_INLINE_LAMBDA {
                     const T* seen = from + offset;
                     T* best = to + at.first;
                     const int64_t n = at.last - at.first;
#pragma GCC ivdep
                     for (int64_t i = 0; i < n; ++i) best[i] = MaxOf(best[i], seen[i * step]);
                   });
      }
    }
  });
}

// Offset in a plane of X of the first tap of the first window in an output row; it may lie outside.
int64_t Corner(const Window& w, int64_t row) {
  const int64_t x0 = row / w.out[1] * w.stride[0] - w.begin[0];
  const int64_t x1 = row % w.out[1] * w.stride[1] - w.begin[1];
  return (x0 * w.in[1] + x1) * w.in[2] - w.begin[2];
}

// Distances in a plane are kept in 32 bits.
PoolShape Analyse(const PrepareContext& ctx) {
  PoolShape shape = MakePoolShape(ctx.op(), ctx.in(0).dims);
  const Window& w = shape.window;
  OPSTEP_CHECK(w.in_size() - Corner(w, 0) < std::numeric_limits<int32_t>::max(), "X is ",
               ctx.in(0).dims.ToString(), ": a channel with so many elements is too large");
  return shape;
}

// The place of the largest element in each window of a row, as a distance from the window's first
// tap: the first of equal ones, kNowhere when all taps lie outside.
constexpr int32_t kNowhere = std::numeric_limits<int32_t>::min();

template <typename T>
OPSTEP_INLINE void FindLargest(const PoolShape& s, int64_t row, const T* plane, T* best,
                               int32_t* where) {
  const Window& w = s.window;
  std::fill_n(best, w.out[2], kLowest<T>);
  std::fill_n(where, w.out[2], kNowhere);
  const int64_t step = w.stride[2];
  const int64_t corner = Corner(w, row);
  ForEachTap(s, row / w.out[1], row % w.out[1],
             [&](int64_t, int64_t offset, Places at) OPSTEP_INLINE_LAMBDA {
               const T* seen = plane + offset;
               T* value = best + at.first;
               int32_t* chosen = where + at.first;
               const int64_t n = at.last - at.first;
               const auto distance = static_cast<int32_t>(offset - corner - at.first * step);
#pragma GCC ivdep
               for (int64_t i = 0; i < n; ++i) {
                 const T v = seen[i * step];
                 // NaN is the largest, and the first -inf counts too.
                 const bool better =
                     (v > value[i]) | ((v != v) & (value[i] == value[i])) | (chosen[i] == kNowhere);
                 value[i] = better ? v : value[i];
                 chosen[i] = better ? distance : chosen[i];
               }
             });
}

// Calls f(plane, place, offset in the plane of X) for the largest element of each window.
template <typename T, typename F>
OPSTEP_INLINE void ForEachLargest(const PoolShape& s, const T* x, int64_t begin, int64_t end,
                                  F&& f) {
  const Window& w = s.window;
  Scratch scratch;
  T* best = scratch.Take<T>(w.out[2]);
  int32_t* where = scratch.Take<int32_t>(w.out[2]);
  for (int64_t plane = begin; plane < end; ++plane) {
    for (int64_t row = 0; row < w.out[0] * w.out[1]; ++row) {
      FindLargest(s, row, x + plane * w.in_size(), best, where);
      const int64_t corner = Corner(w, row);
      for (int64_t i = 0; i < w.out[2]; ++i) {
        if (where[i] == kNowhere) continue;
        f(plane, row * w.out[2] + i, corner + i * w.stride[2] + where[i]);
      }
    }
  }
}

template <typename T>
void RunWithIndices(KernelContext& ctx) {
  Run<T>(ctx);
  const PoolShape& s = ctx.state<PoolShape>();
  const T* x = ctx.in(0).as<T>();
  int64_t* indices = ctx.out(1).as<int64_t>();
  std::fill_n(indices, ctx.out(1).numel, -1);
  ParallelRanges(s.planes, s.cost(), [&](int64_t begin, int64_t end) OPSTEP_INLINE_LAMBDA {
    ForEachLargest(
        s, x, begin, end, [&](int64_t plane, int64_t place, int64_t offset) OPSTEP_INLINE_LAMBDA {
          indices[plane * s.window.out_size() + place] = plane * s.window.in_size() + offset;
        });
  });
}

template <typename T>
void RunGrad(KernelContext& ctx) {
  const PoolShape& s = ctx.state<PoolShape>();
  const T* x = ctx.in(0).as<T>();
  const T* dout = ctx.in(1).as<T>();
  T* dx = ctx.out(0).as<T>();
  ParallelRanges(s.planes, s.cost(), [&](int64_t begin, int64_t end) OPSTEP_INLINE_LAMBDA {
    const int64_t in = s.window.in_size();
    const int64_t out = s.window.out_size();
    std::fill_n(dx + begin * in, (end - begin) * in, T(0));
    ForEachLargest(s, x, begin, end,
                   [&](int64_t plane, int64_t place, int64_t offset) OPSTEP_INLINE_LAMBDA {
                     dx[plane * in + offset] += dout[plane * out + place];
                   });
  });
}

const bool kMaxPool =
    PoolOp("max_pool")
        .Doc("The largest element in each place of a window that slides over X.")
        .In("X", "[N, C, ...] with 1 to 3 spatial dimensions", kFloats)
        .Out("out", "[N, C, ...]", kFloats)
        .Out("indices", "the index of each in the flattened X; the first of equal ones",
             DTypeSet(DType::kInt64))
        .Optional()
        .Shape([](ShapeContext& ctx) {
          PoolRule(ctx);
          ctx.set_out(1, {DType::kInt64, ctx.outs()[0].dims});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const PoolShape shape = Analyse(ctx);
          const bool indices = ctx.out(1).dtype != DType::kNone;
          return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
            using T = decltype(t);
            return WithState(indices ? RunWithIndices<T> : Run<T>, shape);
          });
        })
        .Grad([](GradContext& g) { g.EmitGrad("max_pool_grad", {"X"}, {}, {"out"}, {"X"}); })
        .Oracle("k, ceil = kernel_shape, ceil_mode\n" + std::string(kWindowOracle) + R"(
taps = list(np.ndindex(*k))
numbers = np.arange(X.size).reshape(X.shape)
seen = np.stack([at(X, t, -np.inf) for t in taps])
where = np.stack([at(numbers, t, -1) for t in taps])
nan = np.isnan(seen)
first = np.where(nan.any(axis=0), nan.argmax(axis=0),
                 np.where(where >= 0, seen, -np.inf).argmax(axis=0))[None]
(np.take_along_axis(seen, first, 0)[0], np.take_along_axis(where, first, 0)[0])
)")
        .Sample("X=[2,3,5,6] kernel_shape=[2,2]")
        .Sample("X=[2,3,5,7] kernel_shape=[2,2] strides=[2,2] indices=wanted")
        .Sample("X=[1,2,9] kernel_shape=[3] strides=[2] pads=[1,2] indices=wanted")
        .Sample("X=[1,2,4,3,5] kernel_shape=[2,2,3] pads=[1,0,1,0,1,1] strides=[1,2,2]")
        .Sample("X=[1,2,7,6] kernel_shape=[3,3] strides=[2,2] ceil_mode=True")
        .Sample("X=[1,2,6,6] kernel_shape=[3,3] strides=[4,3] pads=[1,1,1,1] ceil_mode=True")
        .Sample("X=[1,2,8,9] kernel_shape=[3,2] dilations=[2,3] pads=[1,0,2,1] indices=wanted")
        .Sample("X=[1,2,5,6] kernel_shape=[2,3] auto_pad=SAME_UPPER strides=[2,2]")
        .Sample("X=[1,2,5,6] kernel_shape=[2,3] auto_pad=SAME_LOWER strides=[2,2]")
        .Sample("X=[1,2,5,6] kernel_shape=[2,3] auto_pad=VALID strides=[2,2]")
        .Sample("X=[1,1,5,19]{special} kernel_shape=[2,2]")
        .Sample("X=[0,2,4,4] kernel_shape=[2,2]")
        .Sample("X=[2,0,4,4] kernel_shape=[2,2]")
        .Register();

const bool kMaxPoolGrad =
    PoolOp("max_pool_grad")
        .Doc("Gradient of max_pool: dout goes to the element that won.")
        .In("X", "as in the forward op", kFloats)
        .In("dout", "gradient of out", kFloats)
        .Out("dX", "gradient of X", kFloats)
        .Shape(OutLikeInput<0>)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
            return WithState(RunGrad<decltype(t)>, MakePoolShape(ctx.op(), ctx.in(0).dims));
          });
        })
        .Register();

}  // namespace
}  // namespace opstep
