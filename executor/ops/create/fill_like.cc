// fill_like and eye_like: tensors that take only their shape from X.
#include <algorithm>

#include "ops/grad/terms.h"
#include "ops/lib/raw_elements.h"
#include "ops/lib/shape_rules.h"
#include "ops/op.h"

namespace opstep {
namespace {

template <typename U>
void RunFill(KernelContext& ctx) {
  std::fill_n(ctx.out(0).as<U>(), ctx.out(0).numel, static_cast<U>(ctx.state<uint64_t>()));
}

struct Eye {
  uint64_t one = 1;
  int64_t k = 0;
};

template <typename U>
void RunEye(KernelContext& ctx) {
  const Eye& eye = ctx.state<Eye>();
  Tensor& out = ctx.out(0);
  U* to = out.as<U>();
  std::fill_n(to, out.numel, U{0});
  const int64_t rows = out.dims[0], columns = out.dims[1];
  for (int64_t row = std::max<int64_t>(0, -eye.k); row < rows && row + eye.k < columns; ++row) {
    to[row * columns + row + eye.k] = static_cast<U>(eye.one);
  }
}

const bool kFillLike =
    Op("fill_like")
        .Doc("A tensor shaped as X with the same value everywhere.")
        .In("X", "any shape", kEvery)
        .ShapeOnly()
        .Attr(FloatAttr("value", 0.0), "the value")
        .Attr(DTypeAttr("dtype", DType::kNone), "its dtype; that of X unless given")
        .Out("out", "the tensor", kEvery)
        .InplaceOf("X")
        .Role(OpRole::kZeros)
        .Shape([](ShapeContext& ctx) {
          const DType dtype = DTypeLike(ctx.op(), ctx.in(0).dtype);
          ElementBits(dtype, ctx.op().Float("value"), "value");
          ctx.set_out(0, {dtype, ctx.in(0).dims});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const DType dtype = ctx.out(0).dtype;
          const uint64_t bits = ElementBits(dtype, ctx.op().Float("value"), "value");
          return DispatchRaw(
              dtype, [&](auto u) -> Kernel { return WithState(RunFill<decltype(u)>, bits); });
        })
        .Oracle("np.full(X.shape, value, dtype or X.dtype)")
        .Sample("X=[3,7]")
        .Sample("X=[17] value=1")
        .Sample("X=int64[5] value=-2.5 dtype=float32")
        .Sample("X=float32[2,1] value=0.1 dtype=float16")
        .Sample("X=float32[2] value=-128 dtype=int8")
        .Sample("X=[] value=1")
        .Sample("X=[0,3] value=1")
        .Register();

const bool kEyeLike =
    Op("eye_like")
        .Doc("A matrix shaped as X with ones on a diagonal and zeros elsewhere.")
        .In("X", "a matrix", kEvery)
        .ShapeOnly()
        .Attr(IntAttr("k", 0),
              "the diagonal: above the main one when positive, below when negative")
        .Attr(DTypeAttr("dtype", DType::kNone), "its dtype; that of X unless given")
        .Out("out", "the matrix", kEvery)
        .Shape([](ShapeContext& ctx) {
          const Dims& x = ctx.in(0).dims;
          OPSTEP_CHECK(x.rank() == 2, "X is ", x.ToString(), ": it must be a matrix");
          ctx.set_out(0, {DTypeLike(ctx.op(), ctx.in(0).dtype), x});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const Dims& x = ctx.in(0).dims;
          const DType dtype = ctx.out(0).dtype;
          const Eye eye{ElementBits(dtype, 1.0, "one"), std::clamp(ctx.op().Int("k"), -x[0], x[1])};
          return DispatchRaw(dtype,
                             [&](auto u) -> Kernel { return WithState(RunEye<decltype(u)>, eye); });
        })
        .Oracle("np.eye(*X.shape, k=k, dtype=dtype or X.dtype)")
        .Sample("X=[4,4]")
        .Sample("X=[3,5] k=2")
        .Sample("X=[5,3] k=-1")
        .Sample("X=float64[2,3] k=9 dtype=int32")
        .Sample("X=[2,3] k=-9")
        .Sample("X=[0,3]")
        .Register();

}  // namespace

Term Filled(const Term& x, double value) {
  return x ? Term("fill_like", {{"X", {x}}}, "out", {FloatAttr("value", value)}) : x;
}

}  // namespace opstep
