// where: X or Y, element by element, as a condition says, with broadcasting, and its gradient.
#include <cstring>

#include "ops/grad/terms.h"
#include "ops/lib/loop_nest.h"
#include "ops/lib/numeric.h"
#include "ops/lib/shape_rules.h"
#include "ops/op.h"

namespace opstep {
namespace {

// The condition is read as bytes: a choice by bool is not vectorised. kC, kX, kY: 1 when condition,
// X or Y advances in the innermost loop, 0 when it stays.

// Elements are only moved, so T is any type of their size.
template <typename T, int kC, int kX, int kY>
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
        out[i] = c[i * kC] != 0 ? if_true : if_false;
      }
      out += n;
    });
  }
};

struct GradState {
  // Operands condition, X and Y over the shape of out.
  LoopNest<3> nest;
  // The gradient of a side that was broadcast is summed up.
  bool sums_x = false;
  bool sums_y = false;
};

template <typename T, int kC, int kX, int kY>
struct GradBody {
  template <bool kSideX>
  OPSTEP_INLINE static void Side(KernelContext& ctx, Tensor& grad) {
    const GradState& state = ctx.state<GradState>();
    const int64_t n = state.nest.inner_size();
    const auto* condition = ctx.in(0).as<uint8_t>();
    const T* d = ctx.in(3).as<T>();
    const bool sums = kSideX ? state.sums_x : state.sums_y;
    if (sums) std::memset(grad.data, 0, grad.bytes());
    ForEachRun(state.nest, [&](const std::array<int64_t, 3>& at) OPSTEP_INLINE_LAMBDA {
      const uint8_t* c = condition + at[0];
      const auto term = [&](int64_t i) OPSTEP_INLINE_LAMBDA {
        const T value = d[i];
        return (c[i * kC] != 0) == kSideX ? value : T(0);
      };
      T* to = grad.as<T>() + at[kSideX ? 1 : 2];
      if constexpr ((kSideX ? kX : kY) == 0) {
        *to += SumRun<T>(n, term);
      } else if (sums) {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) to[i] += term(i);
      } else {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) to[i] = term(i);
      }
      d += n;
    });
  }

  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    // dX last: it may lie in the memory of dout.
    if (ctx.out(1)) Side<false>(ctx, ctx.out(1));
    if (ctx.out(0)) Side<true>(ctx, ctx.out(0));
  }
};

// Calls f.operator()<T, kC, kX, kY>() for the operands of the nest.
template <typename T, typename F>
Kernel ForOperands(const LoopNest<3>& nest, F&& f) {
  const auto with_c = [&]<int kC>() -> Kernel {
    if (!nest.along(1)) {
      return nest.along(2) ? f.template operator()<T, kC, 0, 1>()
                           : f.template operator()<T, kC, 0, 0>();
    }
    return nest.along(2) ? f.template operator()<T, kC, 1, 1>()
                         : f.template operator()<T, kC, 1, 0>();
  };
  return nest.along(0) ? with_c.template operator()<1>() : with_c.template operator()<0>();
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
  const auto make = [&]<typename T, int kC, int kX, int kY>() {
    return WithState(Best<Body<T, kC, kX, kY>>(), nest);
  };
  switch (SizeOf(ctx.in(1).dtype)) {
    case 1:
      return ForOperands<uint8_t>(nest, make);
    case 2:
      return ForOperands<uint16_t>(nest, make);
    case 4:
      return ForOperands<uint32_t>(nest, make);
    default:
      return ForOperands<uint64_t>(nest, make);
  }
}

Kernel PrepareGrad(const PrepareContext& ctx) {
  const Dims& x = ctx.in(1).dims;
  const Dims& y = ctx.in(2).dims;
  const Dims& domain = ctx.in(3).dims;
  const GradState state{MakeLoopNest<3>(domain, {ctx.in(0).dims, x, y}),
                        x.numel() != domain.numel(), y.numel() != domain.numel()};
  return DispatchFloats(ctx.in(3).dtype, [&](auto t) {
    return ForOperands<decltype(t)>(state.nest, [&]<typename T, int kC, int kX, int kY>() {
      return WithState(Best<GradBody<T, kC, kX, kY>>(), state);
    });
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
