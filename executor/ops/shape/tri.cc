// tri: the upper or lower triangle of each matrix; the rest becomes 0.
#include "ops/lib/strided_copy.h"

namespace opstep {
namespace {

struct State {
  bool upper = true;
  int64_t k = 0;
  int64_t rows = 0, columns = 0;
};

template <typename U>
void Run(KernelContext& ctx) {
  const State& state = ctx.state<State>();
  const U* x = ctx.in(0).as<U>();
  U* out = ctx.out(0).as<U>();
  const U* end = out + ctx.out(0).numel;
  const int64_t n = state.columns;
  if (n == 0) return;
  while (out < end) {
    for (int64_t row = 0; row < state.rows; ++row, x += n, out += n) {
      // Columns first … last - 1 are kept.
      const int64_t first = state.upper ? std::clamp<int64_t>(row + state.k, 0, n) : 0;
      const int64_t last = state.upper ? n : std::clamp<int64_t>(row + state.k + 1, 0, n);
      std::fill_n(out, first, U{0});
      if (out != x) CopyElements(x + first, out + first, last - first);
      std::fill_n(out + last, n - last, U{0});
    }
  }
}

const bool kTri =
    Op("tri")
        .Doc("The upper or lower triangle of each matrix; the rest becomes 0.")
        .In("X", "matrices: […, rows, columns]", kEvery)
        .Attr(BoolAttr("upper", true), "keep the upper triangle, or else the lower one")
        .Attr(IntAttr("k", 0),
              "the diagonal that still belongs to it: above the main one when positive")
        .Out("out", "as X", kEvery)
        .InplaceOf("X")
        .Shape([](ShapeContext& ctx) {
          const Dims& x = ctx.in(0).dims;
          OPSTEP_CHECK(x.rank() >= 2, "X is ", x.ToString(), ": it must hold matrices");
          ctx.set_out(0, ctx.in(0));
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const Dims& x = ctx.in(0).dims;
          const int64_t rows = x[x.rank() - 2], columns = x[x.rank() - 1];
          // Beyond these nothing changes any more.
          const int64_t k = std::clamp(ctx.op().Int("k"), -rows - 1, columns + 1);
          const State state{ctx.op().Bool("upper"), k, rows, columns};
          return DispatchRaw(ctx.in(0).dtype,
                             [&](auto u) -> Kernel { return WithState(Run<decltype(u)>, state); });
        })
        .Grad([](GradContext& g) {
          g.Emit("tri", {{"X", {g.OutGrad("out")}}}, {{"out", {g.InGrad("X")}}},
                 {BoolAttr("upper", g.op().Bool("upper")), IntAttr("k", g.op().Int("k"))});
        })
        .Oracle("(np.triu if upper else np.tril)(X, k)")
        .Sample("X=[4,4]")
        .Sample("X=[4,4] upper=False")
        .Sample("X=[3,17] k=2")
        .Sample("X=[2,5,3] k=-2")
        .Sample("X=[2,2,3,4] upper=False k=1")
        .Sample("X=[5,3] upper=False k=-1")
        .Sample("X=[3,3] k=99")
        .Sample("X=[3,3] upper=False k=-99")
        .Sample("X=[0,3]")
        .Sample("X=[2,0]")
        .Register();

}  // namespace
}  // namespace opstep
