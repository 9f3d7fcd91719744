// lrn: divides by a power of the mean square of neighbouring channels; its gradient.
#include <cmath>

#include "ops/lib/dispatch.h"
#include "ops/lib/parallel_ranges.h"
#include "ops/lib/scratch.h"
#include "ops/lib/shape_rules.h"

namespace opstep {
namespace {

struct State {
  int64_t batch = 0, channels = 0, size = 1;
  int64_t before = 0, after = 0;  // neighbours of a channel that count
  double alpha = 0, beta = 0, bias = 0;
};

State Analyse(const PrepareContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  const int64_t width = ctx.op().Int("size");
  State s;
  s.batch = x[0];
  s.channels = x[1];
  for (int i = 2; i < x.rank(); ++i) s.size *= x[i];
  s.before = (width - 1) / 2;
  s.after = width / 2;
  s.alpha = ctx.op().Float("alpha") / static_cast<double>(width);
  s.beta = ctx.op().Float("beta");
  s.bias = ctx.op().Float("bias");
  return s;
}

// bases[c][i] = bias + alpha / size * sum of the squares of the neighbours, for one image.
template <typename T>
void Bases(const State& s, const T* x, T* bases) {
  for (int64_t c = 0; c < s.channels; ++c) {
    T* to = bases + c * s.size;
    std::fill_n(to, s.size, T(0));
    const int64_t last = std::min(s.channels - 1, c + s.after);
    for (int64_t other = std::max<int64_t>(0, c - s.before); other <= last; ++other) {
      const T* from = x + other * s.size;
      for (int64_t i = 0; i < s.size; ++i) to[i] += from[i] * from[i];
    }
    for (int64_t i = 0; i < s.size; ++i) {
      to[i] = static_cast<T>(s.bias) + static_cast<T>(s.alpha) * to[i];
    }
  }
}

template <typename T>
void Run(KernelContext& ctx) {
  const State& s = ctx.state<State>();
  const int64_t image = s.channels * s.size;
  const T* x = ctx.in(0).as<T>();
  T* out = ctx.out(0).as<T>();
  ParallelRanges(s.batch, 32 * image, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      T* to = out + n * image;
      Bases(s, x + n * image, to);
      for (int64_t i = 0; i < image; ++i) {
        to[i] = x[n * image + i] * std::pow(to[i], static_cast<T>(-s.beta));
      }
    }
  });
}

template <typename T>
void RunGrad(KernelContext& ctx) {
  const State& s = ctx.state<State>();
  const int64_t image = s.channels * s.size;
  const T factor = static_cast<T>(-2 * s.alpha * s.beta);
  ParallelRanges(s.batch, 64 * image, [&](int64_t begin, int64_t end) {
    Scratch scratch;
    T* bases = scratch.Take<T>(image);
    T* inner = scratch.Take<T>(image);  // dout * x * base^(-beta - 1)
    for (int64_t n = begin; n < end; ++n) {
      const T* x = ctx.in(0).as<T>() + n * image;
      const T* d = ctx.in(1).as<T>() + n * image;
      T* dx = ctx.out(0).as<T>() + n * image;
      Bases(s, x, bases);
      for (int64_t i = 0; i < image; ++i) {
        const T power = std::pow(bases[i], static_cast<T>(-s.beta));
        inner[i] = d[i] * x[i] * power / bases[i];
        dx[i] = d[i] * power;
      }
      // A channel counts for its neighbours.
      for (int64_t c = 0; c < s.channels; ++c) {
        const int64_t last = std::min(s.channels - 1, c + s.before);
        for (int64_t other = std::max<int64_t>(0, c - s.after); other <= last; ++other) {
          for (int64_t i = 0; i < s.size; ++i) {
            dx[c * s.size + i] += factor * x[c * s.size + i] * inner[other * s.size + i];
          }
        }
      }
    }
  });
}

Op WithAttrs(std::string type) {
  Op op(std::move(type));
  op.Required("size", AttrType::kInt,
              "the number of neighbouring channels, including the channel itself")
      .Attr(FloatAttr("alpha", 1e-4), "factor of the mean square")
      .Attr(FloatAttr("beta", 0.75), "exponent")
      .Attr(FloatAttr("bias", 1.0), "added to the mean square");
  return op;
}

const bool kLrn =
    WithAttrs("lrn")
        .Doc(
            "Local response normalization: X / (bias + alpha * mean square of the neighbouring "
            "channels) ^ beta.")
        .In("X", "[N, C, ...]", kFloats)
        .Out("out", "as X", kFloats)
        .Shape([](ShapeContext& ctx) {
          const Dims& x = ctx.in(0).dims;
          OPSTEP_CHECK(x.rank() >= 2, "X is ", x.ToString(), ": it must have a batch and channels");
          OPSTEP_CHECK(ctx.op().Int("size") >= 1, "size is ", ctx.op().Int("size"),
                       ": it must be 1 or more");
          ctx.set_out(0, ctx.in(0));
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchFloats(ctx.in(0).dtype,
                                [&](auto t) { return WithState(Run<decltype(t)>, Analyse(ctx)); });
        })
        .Grad([](GradContext& g) { g.EmitGrad("lrn_grad", {"X"}, {}, {"out"}, {"X"}); })
        .Oracle(R"(
before, after = (size - 1) // 2, size // 2
squares = [(X[:, max(0, c - before):c + after + 1] ** 2).sum(axis=1) for c in range(X.shape[1])]
base = bias + alpha / size * np.stack(squares, axis=1) if squares else X
(X / base ** beta).astype(X.dtype)
)")
        .Sample("X=[2,5,3,4] size=3")
        .Sample("X=[2,6,5] size=4 alpha=2.0 beta=0.5 bias=1.5")
        .Sample("X=[1,3,2] size=7 alpha=1.0")
        .Sample("X=[3,4] size=1 alpha=1.0")
        .Sample("X=[0,4,2] size=3")
        .Register();

const bool kLrnGrad = WithAttrs("lrn_grad")
                          .Doc("Gradient of lrn.")
                          .In("X", "as in the forward op", kFloats)
                          .In("dout", "gradient of out", kFloats)
                          .Out("dX", "gradient of X", kFloats)
                          .Shape(OutLikeInput<0>)
                          .Prepare([](const PrepareContext& ctx) -> Kernel {
                            return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
                              return WithState(RunGrad<decltype(t)>, Analyse(ctx));
                            });
                          })
                          .Register();

}  // namespace
}  // namespace opstep
