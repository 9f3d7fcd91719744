// cum_sum: each element plus all before it along an axis.
#include "ops/lib/axis_rows.h"
#include "ops/lib/dispatch.h"
#include "ops/lib/numeric.h"
#include "ops/op.h"

namespace opstep {
namespace {

struct State {
  AxisRows rows;
  bool exclusive = false;
  bool reverse = false;
};

template <typename T>
struct Body {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const auto& [rows, exclusive, reverse] = ctx.state<State>();
    if (ctx.out(0).numel == 0) return;
    // From one slice along the axis to the next; sums of all rows go on at the same time.
    const int64_t step = reverse ? -rows.inner : rows.inner;
    for (int64_t o = 0; o < rows.outer; ++o) {
      const int64_t first = (o * rows.size + (reverse ? rows.size - 1 : 0)) * rows.inner;
      const T* x = ctx.in(0).as<T>() + first;
      T* out = ctx.out(0).as<T>() + first;
      for (int64_t i = 0; i < rows.inner; ++i) out[i] = exclusive ? T(0) : x[i];
      for (int64_t k = 1; k < rows.size; ++k) {
        const T* before = out;
        const T* added = exclusive ? x : x + step;
        out += step;
        x += step;
#pragma GCC ivdep
        for (int64_t i = 0; i < rows.inner; ++i) out[i] = Plus(before[i], added[i]);
      }
    }
  }
};

const bool kCumSum =
    Op("cum_sum")
        .Doc("Each element plus all that come before it along an axis.")
        .In("X", "at least one dimension", kNumbers)
        .Required("axis", AttrType::kInt, "the axis, negative from the end")
        .Attr(BoolAttr("exclusive", false), "leave out the element itself")
        .Attr(BoolAttr("reverse", false), "add those that come after it instead")
        .Out("out", "as X", kNumbers)
        .Shape([](ShapeContext& ctx) {
          NormalizeAxis(ctx.op().Int("axis"), ctx.in(0).dims, "X");
          ctx.set_out(0, ctx.in(0));
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const OpView& op = ctx.op();
          const State state{MakeAxisRows(ctx.in(0).dims, op.Int("axis"), "X"), op.Bool("exclusive"),
                            op.Bool("reverse")};
          return DispatchNumbers(
              ctx.in(0).dtype, [&](auto t) { return WithState(Best<Body<decltype(t)>>(), state); });
        })
        // An element is part of the sums after it: the gradient is the sum from the other end.
        .Grad([](GradContext& g) {
          const OpView& op = g.op();
          g.Emit(op.type(), {{"X", {g.OutGrad("out")}}}, {{"out", {g.InGrad("X")}}},
                 {IntAttr("axis", op.Int("axis")), BoolAttr("exclusive", op.Bool("exclusive")),
                  BoolAttr("reverse", !op.Bool("reverse"))});
        })
        .Oracle(R"(
Y = np.flip(X, axis) if reverse else X
sums = np.cumsum(Y, axis=axis, dtype=X.dtype)
if exclusive:
    sums = np.take(np.insert(sums, 0, 0, axis=axis), np.arange(X.shape[axis]), axis=axis)
np.flip(sums, axis) if reverse else sums
)")
        .Sample("X=[5,7] axis=1")
        .Sample("X=[5,7] axis=0")
        .Sample("X=[2,9,3] axis=-2 exclusive=True")
        .Sample("X=[2,9,3] axis=-2 reverse=True")
        .Sample("X=[33] axis=0 exclusive=True reverse=True")
        .Sample("X=[4,1] axis=1")
        .Sample("X=[4,1] axis=1 exclusive=True")
        .Sample("X=[3,0] axis=1 exclusive=True")
        .Sample("X=[0,3] axis=1")
        .Sample("X=float32[3,20]{special} axis=1")
        .Register();

}  // namespace
}  // namespace opstep
