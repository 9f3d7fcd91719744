// sequence_softmax: softmax within each sequence, and its gradient.
#include "ops/lib/softmax_rows.h"
#include "ops/sequence/sequences.h"

namespace opstep {
namespace {

// The state is the number of elements of a row; each has a separate softmax.

template <typename T>
void Run(KernelContext& ctx) {
  const int64_t width = ctx.state<int64_t>();
  const T* x = ctx.in(0).as<T>();
  T* out = ctx.out(0).as<T>();
  ForEachSequence(ctx.in(1), ctx.in(0).dims[0], [&](int64_t, int64_t begin, int64_t end) {
    if (begin == end) return;
    for (int64_t i = begin * width; i < (begin + 1) * width; ++i)
      SoftmaxRow(x + i, out + i, end - begin, width);
  });
}

template <typename T>
void RunGrad(KernelContext& ctx) {
  const int64_t width = ctx.state<int64_t>();
  const T* out = ctx.in(0).as<T>();
  const T* dout = ctx.in(2).as<T>();
  T* dx = ctx.out(0).as<T>();
  ForEachSequence(ctx.in(1), ctx.in(0).dims[0], [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = 0; i < width; ++i) {
      T dot = 0;
      for (int64_t at = begin * width + i; at < end * width; at += width) dot += out[at] * dout[at];
      for (int64_t at = begin * width + i; at < end * width; at += width)
        dx[at] = out[at] * (dout[at] - dot);
    }
  });
}

int64_t Width(const PrepareContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  return ProductOf(x, 1, x.rank());
}

const bool kSequenceSoftmax =
    Op("sequence_softmax")
        .Doc("Exponentials within each sequence of a ragged tensor, scaled so that their sum is 1.")
        .In("X", "the rows of all sequences: [rows, …]", kFloats)
        .In("offsets", "[sequences + 1]: where each begins, and the number of rows", kOffsets)
        .Out("out", "as X, between 0 and 1", kFloats)
        .Shape([](ShapeContext& ctx) {
          RowCount(ctx.in(0).dims, "X");
          SequenceCount(ctx.in(1).dims);
          ctx.set_out(0, ctx.in(0));
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchFloats(ctx.in(0).dtype,
                                [&](auto t) { return WithState(Run<decltype(t)>, Width(ctx)); });
        })
        .Grad([](GradContext& g) {
          g.EmitGrad("sequence_softmax_grad", {"offsets"}, {"out"}, {"out"}, {"X"});
        })
        .Oracle(R"(
out = np.empty_like(X)
for a, b in zip(offsets, offsets[1:]):
    e = np.exp(X[a:b] - X[a:b].max(axis=0, initial=-np.inf))
    out[a:b] = e / e.sum(axis=0)
out
)")
        .Sample("X=[19]{-4,4} offsets=int64[4]{rising:19}")
        .Sample("X=[19,1]{-4,4} offsets=int64[6]{rising:19}")
        .Sample("X=[9,3]{-40,40} offsets=int64[4]{rising:9}")
        .Sample("X=[2] offsets=int64[6]{rising:2}")
        .Sample("X=[0,3] offsets=int64[2]{rising:0}")
        .Sample("X=[0] offsets=int64[1]{rising:0}")
        .Register();

const bool kSequenceSoftmaxGrad =
    Op("sequence_softmax_grad")
        .Doc("Gradient of sequence_softmax: out * (dout - sum(out * dout)) within each sequence.")
        .In("out", "output of the forward op", kFloats)
        .In("offsets", "of the forward op", kOffsets)
        .In("dout", "gradient of out", kFloats)
        .Out("dX", "gradient of X", kFloats)
        .Shape(OutLikeInput<0>)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchFloats(
              ctx.in(0).dtype, [&](auto t) { return WithState(RunGrad<decltype(t)>, Width(ctx)); });
        })
        .Register();

}  // namespace
}  // namespace opstep
