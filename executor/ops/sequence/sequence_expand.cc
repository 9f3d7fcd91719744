// sequence_expand: row i of X for each row of sequence i of Y, and its gradient.
#include "ops/sequence/sequences.h"

namespace opstep {
namespace {

// The state is the number of elements of a row.

template <typename U>
void Run(KernelContext& ctx) {
  const int64_t width = ctx.state<int64_t>();
  const U* x = ctx.in(0).as<U>();
  U* out = ctx.out(0).as<U>();
  ForEachSequence(ctx.in(1), ctx.out(0).dims[0], [&](int64_t s, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      CopyElements(x + s * width, out + row * width, width);
  });
}

template <typename T>
struct GradBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const int64_t width = ctx.state<int64_t>();
    const T* dout = ctx.in(3).as<T>();
    Tensor& grad = ctx.out(0);
    T* dx = grad.as<T>();
    if (grad.numel > 0) std::memset(grad.data, 0, grad.bytes());
    ForEachSequence(ctx.in(1), ctx.in(3).dims[0],
                    [&](int64_t s, int64_t begin, int64_t end) OPSTEP_INLINE_LAMBDA {
                      T* to = dx + s * width;
                      for (int64_t row = begin; row < end; ++row) {
                        const T* from = dout + row * width;
#pragma GCC ivdep
                        for (int64_t i = 0; i < width; ++i) to[i] += from[i];
                      }
                    });
  }
};

int64_t Width(const PrepareContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  return ProductOf(x, 1, x.rank());
}

const bool kSequenceExpand =
    Op("sequence_expand")
        .Doc("Row i of X for each row of sequence i of a ragged tensor Y.")
        .In("X", "a row for each sequence: [sequences, …]", kEvery)
        .In("offsets", "[sequences + 1]: where each sequence of Y begins, and the number of rows",
            kOffsets)
        .In("Y", "says how many rows there are; its values are not read", kEvery)
        .ShapeOnly()
        .Out("out", "[rows of Y, …]", kEvery)
        .Shape([](ShapeContext& ctx) {
          const Dims& x = ctx.in(0).dims;
          const int64_t count = SequenceCount(ctx.in(1).dims);
          OPSTEP_CHECK(SizesAgree(RowCount(x, "X"), count), "X is ", x.ToString(),
                       " but there are ", count, " sequences: X must have a row for each");
          ctx.set_out(0, {ctx.in(0).dtype, WithFirst({RowCount(ctx.in(2).dims, "Y")}, x, 1)});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchRaw(ctx.in(0).dtype, [&](auto u) -> Kernel {
            return WithState(Run<decltype(u)>, Width(ctx));
          });
        })
        .Grad([](GradContext& g) {
          g.EmitGrad("sequence_expand_grad", {"X", "offsets", "Y"}, {}, {"out"}, {"X"});
        })
        .Oracle("np.repeat(X, np.diff(offsets), axis=0)")
        .Sample("X=[3,2] offsets=int64[4]{rising:7} Y=float32[7,5]")
        .Sample("X=[5,17] offsets=int64[6]{rising:9} Y=int64[9]")
        .Sample("X=[4] offsets=int64[5]{rising:6} Y=float32[6]")
        .Sample("X=[6,2,2] offsets=int64[7]{rising:2} Y=float32[2]")
        .Sample("X=[2,3] offsets=int64[3]{rising:0} Y=float32[0]")
        .Sample("X=[0,3] offsets=int64[1]{rising:0} Y=float32[0]")
        .Register();

const bool kSequenceExpandGrad =
    Op("sequence_expand_grad")
        .Doc("Gradient of sequence_expand: dout summed up within each sequence.")
        .In("X", "of the forward op", kFloats)
        .ShapeOnly()
        .In("offsets", "of the forward op", kOffsets)
        .In("Y", "of the forward op", kEvery)
        .ShapeOnly()
        .In("dout", "gradient of out", kFloats)
        .Out("dX", "gradient of X", kFloats)
        .Shape(OutLikeInput<0>)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchFloats(ctx.out(0).dtype, [&](auto t) {
            return WithState(Best<GradBody<decltype(t)>>(), Width(ctx));
          });
        })
        .Register();

}  // namespace
}  // namespace opstep
