// where: X or Y, element by element, as a condition says, with broadcasting, and its gradient.
#include <algorithm>
#include <cstring>

#include "ops/grad/terms.h"
#include "ops/lib/loop_nest.h"
#include "ops/lib/numeric.h"
#include "ops/lib/raw_elements.h"
#include "ops/lib/shape_rules.h"
#include "ops/op.h"

namespace opstep {
namespace {

// The condition is read as bytes: a choice by bool is not vectorised. Elements are only moved, so T
// is any type of their size.

// The condition advances in the innermost loop. kX, kY: 1 when X or Y advances there too, 0 when it
// stays.
template <typename T, int kX, int kY>
struct Body {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const auto& nest = ctx.state<LoopNest<3>>();
    const auto* condition = ctx.in(0).as<uint8_t>();
    const T* x = ctx.in(1).as<T>();
    const T* y = ctx.in(2).as<T>();
    T* out = ctx.out(0).as<T>();
    const int64_t n = nest.inner_size();
    ForEachRun(nest, [&](const std::array<int64_t, 3>& at) OPSTEP_INLINE_LAMBDA {
      const uint8_t* c = condition + at[0];
      const T* a = x + at[1];
      const T* b = y + at[2];
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) {
        // Both are read first: a choice between values is vectorised, one between addresses is not.
        const T if_true = a[i * kX], if_false = b[i * kY];
        out[i] = c[i] != 0 ? if_true : if_false;
      }
      out += n;
    });
  }
};

// The condition stays in the innermost loop.
template <typename T>
struct RunsBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const auto& nest = ctx.state<LoopNest<3>>();
    const auto* condition = ctx.in(0).as<uint8_t>();
    const T* x = ctx.in(1).as<T>();
    const T* y = ctx.in(2).as<T>();
    T* out = ctx.out(0).as<T>();
    const int64_t n = nest.inner_size();
    ForEachRun(nest, [&](const std::array<int64_t, 3>& at) OPSTEP_INLINE_LAMBDA {
      const bool is_x = condition[at[0]] != 0;
      const T* from = is_x ? x + at[1] : y + at[2];
      if (nest.along(is_x ? 1 : 2)) {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) out[i] = from[i];
      } else {
        std::fill_n(out, n, *from);
      }
      out += n;
    });
  }
};

// A row of the gradient `to` of one side: dout `d` where the condition is `taken`.
struct GradRow {
  const uint8_t* c;
  const void* d;
  void* to;
  int64_t size;
  bool taken;
};
using GradRowFn = void (*)(const GradRow&);

// kC, kTo: 1 when the condition or `to` advances, 0 when it stays.
template <typename T, int kC, int kTo, bool kSums>
struct GradRowBody {
  OPSTEP_INLINE static void Run(const GradRow& row) {
    const uint8_t* c = row.c;
    const T* d = static_cast<const T*>(row.d);
    T* to = static_cast<T*>(row.to);
    const int64_t n = row.size;
    const bool taken = row.taken;
    const auto term = [&](int64_t i) OPSTEP_INLINE_LAMBDA {
      const T value = d[i];
      return (c[i * kC] != 0) == taken ? value : T(0);
    };
    if constexpr (kTo == 0) {
      *to += SumRun<T>(n, term);
    } else if constexpr (kSums) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) to[i] += term(i);
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) to[i] = term(i);
    }
  }
};

struct GradState {
  // Operands condition, X and Y over the shape of out.
  LoopNest<3> nest;
  struct Side {
    GradRowFn run = nullptr;
    // The gradient of a side that was broadcast is summed up.
    bool sums = false;
  };
  Side x, y;
};

template <typename T, int kC>
GradRowFn GradRowOf(bool along, bool sums) {
  if (!along) return Best<GradRowBody<T, kC, 0, true>>();
  return sums ? Best<GradRowBody<T, kC, 1, true>>() : Best<GradRowBody<T, kC, 1, false>>();
}

void RunGradSide(KernelContext& ctx, const GradState& state, bool is_x) {
  const GradState::Side& side = is_x ? state.x : state.y;
  const int64_t n = state.nest.inner_size();
  const auto* condition = ctx.in(0).as<uint8_t>();
  const auto* d = static_cast<const char*>(ctx.in(3).data);
  Tensor& grad = ctx.out(is_x ? 0 : 1);
  const auto size = static_cast<int64_t>(SizeOf(grad.dtype));
  if (side.sums) std::memset(grad.data, 0, grad.bytes());
  ForEachRun(state.nest, [&](const std::array<int64_t, 3>& at) OPSTEP_INLINE_LAMBDA {
    char* to = static_cast<char*>(grad.data) + at[is_x ? 1 : 2] * size;
    side.run({condition + at[0], d, to, n, is_x});
    d += n * size;
  });
}

void RunGrad(KernelContext& ctx) {
  const auto& state = ctx.state<GradState>();
  // dX last: it may lie in the memory of dout.
  if (ctx.out(1)) RunGradSide(ctx, state, false);
  if (ctx.out(0)) RunGradSide(ctx, state, true);
}

void Shape(ShapeContext& ctx) {
  CheckSameDType(ctx.in(1), "X", ctx.in(2), "Y");
  const Dims both = BroadcastDims(ctx.in(1).dims, "X", ctx.in(2).dims, "Y");
  ctx.set_out(0, {ctx.in(1).dtype,
                  BroadcastDims(ctx.in(0).dims, "condition", both, "the broadcast of X and Y")});
}

Kernel Prepare(const PrepareContext& ctx) {
  const auto nest =
      MakeLoopNest<3>(ctx.out(0).dims, {ctx.in(0).dims, ctx.in(1).dims, ctx.in(2).dims});
  return DispatchRaw(ctx.in(1).dtype, [&](auto u) {
    using T = decltype(u);
    if (!nest.along(0)) return WithState(Best<RunsBody<T>>(), nest);
    if (nest.along(1)) {
      return WithState(nest.along(2) ? Best<Body<T, 1, 1>>() : Best<Body<T, 1, 0>>(), nest);
    }
    return WithState(nest.along(2) ? Best<Body<T, 0, 1>>() : Best<Body<T, 0, 0>>(), nest);
  });
}

Kernel PrepareGrad(const PrepareContext& ctx) {
  const Dims& x = ctx.in(1).dims;
  const Dims& y = ctx.in(2).dims;
  const Dims& domain = ctx.in(3).dims;
  GradState state{MakeLoopNest<3>(domain, {ctx.in(0).dims, x, y}),
                  {nullptr, x.numel() != domain.numel()},
                  {nullptr, y.numel() != domain.numel()}};
  return DispatchFloats(ctx.in(3).dtype, [&](auto t) {
    using T = decltype(t);
    const auto row_of = state.nest.along(0) ? GradRowOf<T, 1> : GradRowOf<T, 0>;
    state.x.run = row_of(state.nest.along(1), state.x.sums);
    state.y.run = row_of(state.nest.along(2), state.y.sums);
    return WithState(RunGrad, state);
  });
}

const bool kWhere =
    Op("where")
        .Doc("X where the condition is true, else Y, element by element, with broadcasting.")
        .In("condition", "which one to take", kBools)
        .In("X", "taken where the condition is true", kEvery)
        .In("Y", "taken where it is false", kEvery)
        .Out("out", "elements of X and Y", kEvery)
        .InplaceOf("X")
        .Shape(Shape)
        .Prepare(Prepare)
        .Grad([](GradContext& g) {
          g.EmitGrad("where_grad", {"condition", "X", "Y"}, {}, {"out"}, {"X", "Y"});
        })
        .Oracle("np.where(condition, X, Y)")
        .Sample("condition=bool[3,17] X=[3,17] Y=[3,17]")
        .Sample("condition=bool[7,17] X=[17] Y=[7,1]")
        .Sample("condition=bool[7,1] X=[7,17] Y=[]")
        .Sample("condition=bool[5] X=[4,1] Y=[1]")
        .Sample("condition=bool[4,1] X=[4,1] Y=[33]")
        .Sample("condition=bool[2,1,5] X=[3,1] Y=[2,3,5]")
        .Sample("condition=bool[] X=[4,3] Y=[4,1]")
        .Sample("condition=bool[1] X=[] Y=[]")
        .Sample("condition=bool[3] X=[0,3] Y=[3]")
        .Sample("condition=bool[64] X=float32[64]{special} Y=float32[8,1]{special}")
        .Register();

const bool kWhereGrad =
    Op("where_grad")
        .Doc(
            "Gradient of where: dout to the side that was taken, summed over the broadcast "
            "dimensions.")
        .In("condition", "of the forward op", kBools)
        .In("X", "of the forward op", kFloats)
        .ShapeOnly()
        .In("Y", "of the forward op", kFloats)
        .ShapeOnly()
        .In("dout", "gradient of out", kFloats)
        .Out("dX", "gradient of X", kFloats)
        .Optional()
        .InplaceOf("dout")
        .Out("dY", "gradient of Y", kFloats)
        .Optional()
        .Shape([](ShapeContext& ctx) {
          ctx.set_out(0, ctx.in(1));
          ctx.set_out(1, ctx.in(2));
        })
        .Prepare(PrepareGrad)
        .Grad([](GradContext& g) {
          BothSides(g, {{"condition", {In(g, "condition")}}});
        })
        .Register();

}  // namespace
}  // namespace opstep
