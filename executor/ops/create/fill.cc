// fill: a tensor of given sizes with the same value everywhere.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "ops/lib/shape_rules.h"
#include "ops/op.h"

namespace opstep {
namespace {

template <typename T>
Kernel FillWith(double value) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    using Limits = std::numeric_limits<T>;
    OPSTEP_CHECK(value >= static_cast<double>(Limits::min()) &&
                     value < static_cast<double>(Limits::max()) + 1,
                 "value is ", value, ", which ", NameOf(DTypeOf<T>::value), " cannot hold");
  }
  const auto run = [](KernelContext& ctx) {
    std::fill_n(ctx.out(0).as<T>(), ctx.out(0).numel, ctx.state<T>());
  };
  return WithState<T>(run, static_cast<T>(value));
}

const bool kFill = Op("fill")
                       .Doc("A tensor with the same value everywhere.")
                       .Required("shape", AttrType::kInts, "its sizes")
                       .Attr(DTypeAttr("dtype", DType::kFloat32), "its dtype")
                       .Attr(FloatAttr("value", 0.0), "the value")
                       .Out("out", "the tensor", kEvery)
                       .Role(OpRole::kFill)
                       .Shape([](ShapeContext& ctx) {
                         ctx.set_out(0, {ctx.op().DType("dtype"), DimsFromAttr(ctx.op(), "shape")});
                       })
                       .Prepare([](const PrepareContext& ctx) -> Kernel {
                         return DispatchEvery(ctx.out(0).dtype, [&](auto t) {
                           return FillWith<decltype(t)>(ctx.op().Float("value"));
                         });
                       })
                       .Oracle("np.full(shape, value, dtype)")
                       .Sample("shape=[3,7] dtype=float32 value=1.5")
                       .Sample("shape=[] dtype=float64 value=-2")
                       .Sample("shape=[0,4] dtype=int64 value=3")
                       .Sample("shape=[5] dtype=int32 value=-7")
                       .Sample("shape=[2,1] dtype=bool value=1")
                       .Sample("shape=[3] dtype=float16 value=0.1")
                       .Sample("shape=[3] dtype=bfloat16 value=0.1")
                       .Sample("shape=[3] dtype=int8 value=-7")
                       .Sample("shape=[3] dtype=int16 value=-700")
                       .Sample("shape=[3] dtype=uint8 value=200")
                       .Register();

}  // namespace
}  // namespace opstep
