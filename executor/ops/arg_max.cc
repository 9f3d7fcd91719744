#include "ops/dispatch.h"
#include "ops/op.h"
#include "ops/shape_rules.h"

namespace opstep {
namespace {

struct State {
  int64_t outer = 1, size = 1, inner = 1;
};

template <typename T>
void Run(KernelContext& ctx) {
  const State& s = ctx.state<State>();
  const T* x = ctx.in(0).as<T>();
  int64_t* out = ctx.out(0).as<int64_t>();
  for (int64_t o = 0; o < s.outer; ++o) {
    for (int64_t i = 0; i < s.inner; ++i) {
      const T* row = x + o * s.size * s.inner + i;
      int64_t best = 0;
      for (int64_t k = 1; k < s.size; ++k) {
        const T value = row[k * s.inner], so_far = row[best * s.inner];
        // The first NaN wins.
        if (value > so_far || (value != value && so_far == so_far)) best = k;
      }
      *out++ = best;
    }
  }
}

const bool kArgMax =
    Op("arg_max")
        .Doc(
            "The index of the largest element along an axis; the first one when several are equal.")
        .In("X", "at least one dimension", kNumbers)
        .Attr(IntAttr("axis", 0), "the axis to search, negative from the end")
        .Attr(BoolAttr("keepdims", true), "keep the axis with size 1")
        .Out("out", "the indexes", DTypeSet(DType::kInt64))
        .Shape([](ShapeContext& ctx) {
          const Dims& x = ctx.in(0).dims;
          const int axis = NormalizeAxis(ctx.op().Int("axis"), x, "X");
          OPSTEP_CHECK(x[axis] != 0, "X is ", x.ToString(), ": axis ", axis, " has no elements");
          Dims out;
          for (int i = 0; i < x.rank(); ++i) {
            if (i != axis) out.push_back(x[i]);
            if (i == axis && ctx.op().Bool("keepdims")) out.push_back(1);
          }
          ctx.set_out(0, {DType::kInt64, out});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const Dims& x = ctx.in(0).dims;
          const int axis = NormalizeAxis(ctx.op().Int("axis"), x, "X");
          State state;
          for (int i = 0; i < axis; ++i) state.outer *= x[i];
          state.size = x[axis];
          for (int i = axis + 1; i < x.rank(); ++i) state.inner *= x[i];
          return DispatchNumbers(ctx.in(0).dtype,
                                 [&](auto t) { return WithState(Run<decltype(t)>, state); });
        })
        .Oracle("np.argmax(X, axis=axis, keepdims=keepdims)")
        .Sample("X=[5,7] axis=1 keepdims=False")
        .Sample("X=[5,7]")
        .Sample("X=[2,9,3]{0,2} axis=-2")
        .Sample("X=[1] keepdims=False")
        .Sample("X=[0,4] axis=1")
        .Sample("X=float64[8,16]{special} axis=1")
        .Register();

}  // namespace
}  // namespace opstep
