// average_pool: the mean in each place of a sliding window, and its gradient.
#include "ops/grad/terms.h"
#include "ops/nn/pool.h"

namespace opstep {
namespace {

struct State {
  PoolShape shape;
  // Taps that count at each place of each dimension.
  std::array<std::vector<int64_t>, Window::kRank> counts;
};

State Analyse(const PrepareContext& ctx) {
  State state{MakePoolShape(ctx.op(), ctx.in(0).dims), {}};
  for (int i = 0; i < Window::kRank; ++i) {
    state.counts[i] = CountTaps(state.shape.window, i, ctx.op().Bool("count_include_pad"));
  }
  return state;
}

// The divisor of the sums in an output row, without the last dimension. 1 where no tap counts: the
// sum is 0 there.
int64_t RowCount(const State& s, int64_t row) {
  const int64_t width = s.shape.window.out[1];
  return std::max<int64_t>(1, s.counts[0][row / width] * s.counts[1][row % width]);
}

template <typename T>
void Run(KernelContext& ctx) {
  const State& s = ctx.state<State>();
  const T* x = ctx.in(0).as<T>();
  T* out = ctx.out(0).as<T>();
  ParallelRanges(s.shape.planes, s.shape.cost(),
                 [&](int64_t begin, int64_t end) OPSTEP_INLINE_LAMBDA {
                   const Window& w = s.shape.window;
                   const int64_t step = w.stride[2];
                   const int64_t* counts = s.counts[2].data();
                   for (int64_t plane = begin; plane < end; ++plane) {
                     const T* from = x + plane * w.in_size();
                     for (int64_t row = 0; row < w.out[0] * w.out[1]; ++row) {
                       T* to = out + plane * w.out_size() + row * w.out[2];
                       std::fill_n(to, w.out[2], T(0));
                       ForEachTap(s.shape, row / w.out[1], row % w.out[1],
                                  [&](int64_t, int64_t offset, Places at) OPSTEP_INLINE_LAMBDA {
                                    const T* seen = from + offset;
                                    T* sum = to + at.first;
                                    const int64_t n = at.last - at.first;
#pragma GCC ivdep
                                    for (int64_t i = 0; i < n; ++i) sum[i] += seen[i * step];
                                  });
                       const int64_t count = RowCount(s, row);
                       for (int64_t i = 0; i < w.out[2]; ++i) {
                         to[i] /= static_cast<T>(count * std::max<int64_t>(1, counts[i]));
                       }
                     }
                   }
                 });
}

template <typename T>
void RunGrad(KernelContext& ctx) {
  const State& s = ctx.state<State>();
  const T* dout = ctx.in(1).as<T>();
  T* dx = ctx.out(0).as<T>();
  ParallelRanges(
      s.shape.planes, s.shape.cost(), [&](int64_t begin, int64_t end) OPSTEP_INLINE_LAMBDA {
        const Window& w = s.shape.window;
        const int64_t step = w.stride[2];
        const int64_t* counts = s.counts[2].data();
        for (int64_t plane = begin; plane < end; ++plane) {
          T* to = dx + plane * w.in_size();
          std::fill_n(to, w.in_size(), T(0));
          for (int64_t row = 0; row < w.out[0] * w.out[1]; ++row) {
            const T* d = dout + plane * w.out_size() + row * w.out[2];
            const int64_t count = RowCount(s, row);
            ForEachTap(s.shape, row / w.out[1], row % w.out[1],
                       [&](int64_t, int64_t offset, Places at) OPSTEP_INLINE_LAMBDA {
                         T* seen = to + offset;
#pragma GCC ivdep
                         for (int64_t i = at.first; i < at.last; ++i) {
                           seen[(i - at.first) * step] +=
                               d[i] / static_cast<T>(count * std::max<int64_t>(1, counts[i]));
                         }
                       });
          }
        }
      });
}

Op AveragePoolOp(std::string type) {
  Op op = PoolOp(std::move(type));
  op.Attr(BoolAttr("count_include_pad", false), "padding counts as elements that are 0");
  return op;
}

const bool kAveragePool =
    AveragePoolOp("average_pool")
        .Doc("The mean of the elements in each place of a window that slides over X.")
        .In("X", "[N, C, ...] with 1 to 3 spatial dimensions", kFloats)
        .Out("out", "[N, C, ...]", kFloats)
        .Shape(PoolRule)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchFloats(ctx.in(0).dtype,
                                [&](auto t) { return WithState(Run<decltype(t)>, Analyse(ctx)); });
        })
        .Grad([](GradContext& g) { g.EmitGrad("average_pool_grad", {"X"}, {}, {"out"}, {"X"}); })
        .Oracle("k, ceil = kernel_shape, ceil_mode\n" + std::string(kWindowOracle) + R"(
taps = list(np.ndindex(*k))
inside = np.ones(X.shape)
counted = inside
if count_include_pad:
    # Seen from the padded tensor, whose own padding does not count.
    counted = np.pad(inside, [(0, 0), (0, 0), *zip(begin, end)], constant_values=1)
    cut = dict(size=counted.shape[2:], begin=[0] * r)
    count = sum(at(counted, t, 0, **cut) for t in taps)
else:
    count = sum(at(counted, t, 0) for t in taps)
(sum(at(X, t, 0) for t in taps) / np.maximum(count, 1)).astype(X.dtype)
)")
        .Sample("X=[2,3,5,6] kernel_shape=[2,2]")
        .Sample("X=[2,3,5,7] kernel_shape=[2,2] strides=[2,2]")
        .Sample("X=[1,2,9] kernel_shape=[3] strides=[2] pads=[1,2]")
        .Sample("X=[1,2,9] kernel_shape=[3] strides=[2] pads=[1,2] count_include_pad=True")
        .Sample("X=[1,2,4,3,5] kernel_shape=[2,2,3] pads=[1,0,1,0,1,1] strides=[1,2,2]")
        .Sample("X=[1,2,7,6] kernel_shape=[3,3] strides=[2,2] ceil_mode=True")
        .Sample(
            "X=[1,2,6,6] kernel_shape=[3,3] strides=[4,2] pads=[1,1,1,0] ceil_mode=True "
            "count_include_pad=True")
        .Sample("X=[1,2,8,9] kernel_shape=[3,2] dilations=[2,3] pads=[1,0,2,1]")
        .Sample("X=[1,1,1] kernel_shape=[2] dilations=[2] pads=[1,1]")
        .Sample("X=[1,2,5,6] kernel_shape=[2,3] auto_pad=SAME_UPPER strides=[2,2]")
        .Sample("X=[1,2,5,6] kernel_shape=[2,3] auto_pad=SAME_LOWER count_include_pad=True")
        .Sample("X=[1,2,5,6] kernel_shape=[2,3] auto_pad=VALID strides=[2,2]")
        .Sample("X=[0,2,4,4] kernel_shape=[2,2]")
        .Register();

const bool kAveragePoolGrad = AveragePoolOp("average_pool_grad")
                                  .Doc("Gradient of average_pool: each element's share of dout.")
                                  .In("X", "input of the forward op", kFloats)
                                  .ShapeOnly()
                                  .In("dout", "gradient of out", kFloats)
                                  .Out("dX", "gradient of X", kFloats)
                                  .Shape(OutLikeInput<0>)
                                  .Prepare([](const PrepareContext& ctx) -> Kernel {
                                    return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
                                      return WithState(RunGrad<decltype(t)>, Analyse(ctx));
                                    });
                                  })
                                  .Grad(MovedGradient)
                                  .Register();

}  // namespace
}  // namespace opstep
