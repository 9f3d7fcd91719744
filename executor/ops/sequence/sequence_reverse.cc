// sequence_reverse: the rows of each sequence in the other order.
#include "ops/sequence/sequences.h"

namespace opstep {
namespace {

// The state is the number of elements of a row.
template <typename U>
void Run(KernelContext& ctx) {
  const int64_t width = ctx.state<int64_t>();
  const U* x = ctx.in(0).as<U>();
  U* out = ctx.out(0).as<U>();
  ForEachSequence(ctx.in(1), ctx.in(0).dims[0], [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      CopyElements(x + row * width, out + (begin + end - 1 - row) * width, width);
  });
}

const bool kSequenceReverse =
    Op("sequence_reverse")
        .Doc("The rows of each sequence of a ragged tensor in the other order.")
        .In("X", "the rows of all sequences: [rows, …]", kEvery)
        .In("offsets", "[sequences + 1]: where each begins, and the number of rows", kOffsets)
        .Out("out", "as X", kEvery)
        .Shape([](ShapeContext& ctx) {
          RowCount(ctx.in(0).dims, "X");
          SequenceCount(ctx.in(1).dims);
          ctx.set_out(0, ctx.in(0));
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const Dims& x = ctx.in(0).dims;
          return DispatchRaw(ctx.in(0).dtype, [&](auto u) -> Kernel {
            return WithState(Run<decltype(u)>, ProductOf(x, 1, x.rank()));
          });
        })
        .Grad([](GradContext& g) {
          g.Emit("sequence_reverse",
                 {{"X", {g.OutGrad("out")}}, {"offsets", {g.op().Input("offsets")}}},
                 {{"out", {g.InGrad("X")}}});
        })
        .Oracle("np.concatenate([X[:0]] + [X[a:b][::-1] for a, b in zip(offsets, offsets[1:])])")
        .Sample("X=[7,3] offsets=int64[4]{rising:7}")
        .Sample("X=[19,17] offsets=int64[4]{rising:19}")
        .Sample("X=[9,2,2] offsets=int64[12]{rising:9}")
        .Sample("X=[5] offsets=int64[2]{rising:5}")
        .Sample("X=[0,3] offsets=int64[1]{rising:0}")
        .Register();

}  // namespace
}  // namespace opstep
