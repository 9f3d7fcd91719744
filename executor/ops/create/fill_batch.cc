// fill_batch: a tensor with one value everywhere and the number of rows of another tensor.
#include <algorithm>

#include "ops/lib/dispatch.h"
#include "ops/lib/shape_rules.h"
#include "ops/op.h"

namespace opstep {
namespace {

template <typename T>
void Run(KernelContext& ctx) {
  std::fill_n(ctx.out(0).as<T>(), ctx.out(0).numel, ctx.state<T>());
}

const bool kFillBatch =
    Op("fill_batch")
        .Doc("A tensor with the same value everywhere and the number of rows of another tensor.")
        .In("X", "its values are not read", kEvery)
        .ShapeOnly()
        .Required("shape", AttrType::kInts, "the sizes after the first")
        .Attr(IntAttr("axis", 0), "the axis of X that gives the number of rows")
        .Attr(DTypeAttr("dtype", DType::kFloat32), "its dtype")
        .Attr(FloatAttr("value", 0.0), "the value")
        .Out("out", "[rows, *shape]", kAny)
        .Shape([](ShapeContext& ctx) {
          const Dims& x = ctx.in(0).dims;
          Dims dims{x[NormalizeAxis(ctx.op().Int("axis"), x, "X")]};
          for (const int64_t size : DimsFromAttr(ctx.op(), "shape")) dims.push_back(size);
          ctx.set_out(0, {ctx.op().DType("dtype"), dims});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchAny(ctx.out(0).dtype, [&](auto t) {
            using T = decltype(t);
            return WithState<T>(Run<T>, static_cast<T>(ctx.op().Float("value")));
          });
        })
        .Oracle("np.full([X.shape[axis], *shape], value, dtype)")
        .Sample("X=float32[3,7] shape=[4] value=1.5")
        .Sample("X=float32[3,7] shape=[2,2] axis=1 dtype=int64 value=-3")
        .Sample("X=int64[0,2] shape=[]")
        .Sample("X=int64[5,2] shape=[] axis=-1 dtype=float64")
        .Register();

}  // namespace
}  // namespace opstep
