// gather: slices of X along an axis by their indices, and its gradient.
#include "ops/grad/terms.h"
#include "ops/indexing/index_lookup.h"

namespace opstep {
namespace {

// X as [outer, size, inner]: rows of `inner` elements are taken.
struct State {
  int axis = 0;
  int64_t outer = 1, size = 0, inner = 1;
};

State MakeState(const OpView& op, const Dims& x) {
  const int axis = NormalizeAxis(op.Int("axis"), x, "X");
  return {axis, ProductOf(x, 0, axis), x[axis], ProductOf(x, axis + 1, x.rank())};
}

// Calls f(row of X, row of out) for each row that is taken, as offsets in elements.
template <typename F>
OPSTEP_INLINE void ForEachRow(const State& state, const Tensor& indices, F&& f) {
  WithIndices(indices, [&](const auto* values) OPSTEP_INLINE_LAMBDA {
    int64_t to = 0;
    for (int64_t o = 0; o < state.outer; ++o) {
      const int64_t base = o * state.size;
      for (int64_t k = 0; k < indices.numel; ++k, to += state.inner) {
        const int64_t at = PositionOf(indices, values, k, state.size, state.axis);
        f((base + at) * state.inner, to);
      }
    }
  });
}

template <typename U>
void Run(KernelContext& ctx) {
  const State state = ctx.state<State>();
  const U* x = ctx.in(0).as<U>();
  U* out = ctx.out(0).as<U>();
  if (state.inner == 1) {
    ForEachRow(state, ctx.in(1),
               [&](int64_t from, int64_t to) OPSTEP_INLINE_LAMBDA { out[to] = x[from]; });
  } else {
    ForEachRow(state, ctx.in(1), [&](int64_t from, int64_t to) OPSTEP_INLINE_LAMBDA {
      CopyElements(x + from, out + to, state.inner);
    });
  }
}

template <typename T>
struct GradBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const State state = ctx.state<State>();
    const T* dout = ctx.in(2).as<T>();
    Tensor& grad = ctx.out(0);
    if (grad.numel > 0) std::memset(grad.data, 0, grad.bytes());
    T* dx = grad.as<T>();
    ForEachRow(state, ctx.in(1), [&](int64_t at, int64_t from) OPSTEP_INLINE_LAMBDA {
      T* row = dx + at;
      const T* d = dout + from;
#pragma GCC ivdep
      for (int64_t i = 0; i < state.inner; ++i) row[i] = Plus(row[i], d[i]);
    });
  }
};

const bool kGather = Op("gather")
                         .Doc("Takes elements of X along an axis by their indices.")
                         .In("X", "any shape but []", kEvery)
                         .In("indices", "any shape; negative ones count from the end", kIndices)
                         .Attr(IntAttr("axis", 0), "the axis of X; negative from the end")
                         .Out("out", "as X with the shape of indices in place of the axis", kEvery)
                         .Shape([](ShapeContext& ctx) {
                           const Dims& x = ctx.in(0).dims;
                           const int axis = NormalizeAxis(ctx.op().Int("axis"), x, "X");
                           Dims out;
                           for (int i = 0; i < axis; ++i) out.push_back(x[i]);
                           for (int64_t size : ctx.in(1).dims) out.push_back(size);
                           for (int i = axis + 1; i < x.rank(); ++i) out.push_back(x[i]);
                           ctx.set_out(0, {ctx.in(0).dtype, out});
                         })
                         .Prepare([](const PrepareContext& ctx) -> Kernel {
                           const State state = MakeState(ctx.op(), ctx.in(0).dims);
                           return DispatchRaw(ctx.in(0).dtype, [&](auto u) -> Kernel {
                             return WithState(Run<decltype(u)>, state);
                           });
                         })
                         .Grad([](GradContext& g) {
                           g.EmitGrad("gather_grad", {"X", "indices"}, {}, {"out"}, {"X"});
                         })
                         .Oracle("np.take(X, indices, axis)")
                         .Sample("X=[5,17] indices=int64[3]{0,4}")
                         .Sample("X=[5,3] indices=int32[2,4]{-5,4}")
                         .Sample("X=[3,5,2] indices=int64[7]{-5,4} axis=1")
                         .Sample("X=[3,5] indices=int32[2,2]{0,4} axis=-1")
                         .Sample("X=[4,3] indices=int64[]{-4,3}")
                         .Sample("X=[9] indices=int64[1]{0,8}")
                         .Sample("X=[0,3] indices=int64[0]")
                         .Sample("X=[4,0] indices=int64[2]{0,3}")
                         .Register();

const bool kGatherGrad = TakeGradOp("gather_grad", "gather")
                             .Attr(IntAttr("axis", 0), "as in gather")
                             .Prepare([](const PrepareContext& ctx) -> Kernel {
                               const State state = MakeState(ctx.op(), ctx.in(0).dims);
                               return DispatchFloats(ctx.out(0).dtype, [&](auto t) -> Kernel {
                                 return WithState(Best<GradBody<decltype(t)>>(), state);
                               });
                             })
                             .Grad(MovedGradient)
                             .Register();

}  // namespace
}  // namespace opstep
