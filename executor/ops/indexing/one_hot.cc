// one_hot: a new axis with one value at the place that an index names, another elsewhere.
#include <cmath>

#include "ops/lib/dispatch.h"
#include "ops/lib/strided_copy.h"

namespace opstep {
namespace {

// out is [outer, depth, inner].
struct State {
  int64_t depth = 0, inner = 1;
  uint64_t on = 1, off = 0;
};

template <typename I, typename U>
void Run(KernelContext& ctx) {
  const State& state = ctx.state<State>();
  const Tensor& indices = ctx.in(0);
  const I* index = indices.as<I>();
  Tensor& out = ctx.out(0);
  U* to = out.as<U>();
  std::fill_n(to, out.numel, static_cast<U>(state.off));
  const U on = static_cast<U>(state.on);
  using Wide = std::conditional_t<std::is_integral_v<I>, int64_t, double>;
  const Wide depth = static_cast<Wide>(state.depth);
  for (int64_t k = 0; k < indices.numel; k += state.inner, to += state.depth * state.inner) {
    for (int64_t i = 0; i < state.inner; ++i) {
      Wide at = static_cast<Wide>(index[k + i]);
      if constexpr (!std::is_integral_v<I>) at = std::trunc(at);
      at += at < 0 ? depth : 0;
      // Compared before it becomes an integer: it may be NaN, or too large for one.
      if (at >= 0 && at < depth) to[static_cast<int64_t>(at) * state.inner + i] = on;
    }
  }
}

Kernel Prepare(const PrepareContext& ctx) {
  const OpView& op = ctx.op();
  const Dims& out = ctx.out(0).dims;
  const DType dtype = ctx.out(0).dtype;
  const int axis = NormalizeAxis(op.Int("axis"), out, "out");
  const State state{out[axis], ProductOf(out, axis + 1, out.rank()),
                    ElementBits(dtype, op.Float("on_value"), "on_value"),
                    ElementBits(dtype, op.Float("off_value"), "off_value")};
  return DispatchNumbers(ctx.in(0).dtype, [&](auto i) -> Kernel {
    return DispatchRaw(
        dtype, [&](auto u) -> Kernel { return WithState(Run<decltype(i), decltype(u)>, state); });
  });
}

const bool kOneHot =
    Op("one_hot")
        .Doc("A new axis with on_value at the place that an index names and off_value elsewhere.")
        .In("indices",
            "any shape, fractions are cut; negative ones count from the end, those outside name no "
            "place",
            kNumbers)
        .Required("depth", AttrType::kInt, "size of the new axis")
        .Attr(IntAttr("axis", -1), "where the new axis is in out; negative from the end")
        .Attr(FloatAttr("on_value", 1.0), "at the index")
        .Attr(FloatAttr("off_value", 0.0), "elsewhere")
        .Attr(DTypeAttr("dtype", DType::kFloat32), "dtype of out")
        .Out("out", "the shape of indices with the new axis", kEvery)
        .Shape([](ShapeContext& ctx) {
          const Dims& indices = ctx.in(0).dims;
          const int64_t depth = ctx.op().Int("depth");
          OPSTEP_CHECK(depth >= 0, "depth is ", depth, ": it must be 0 or more");
          Dims out = indices;
          out.push_back(depth);
          const int axis = NormalizeAxis(ctx.op().Int("axis"), out, "out");
          for (int i = axis; i < indices.rank(); ++i) out[i + 1] = indices[i];
          out[axis] = depth;
          const DType dtype = ctx.op().DType("dtype");
          ElementBits(dtype, ctx.op().Float("on_value"), "on_value");
          ElementBits(dtype, ctx.op().Float("off_value"), "off_value");
          ctx.set_out(0, {dtype, out});
        })
        .Prepare(Prepare)
        .Oracle(R"(
whole = np.trunc(indices)
at = np.expand_dims(np.where(whole < 0, whole + depth, whole), axis)
shape = [1] * at.ndim
shape[axis] = depth
np.where(at == np.arange(depth).reshape(shape), on_value, off_value).astype(dtype)
)")
        .Sample("indices=[7]{0,4} depth=5")
        .Sample("indices=int64[3,4]{-9,9} depth=6")
        .Sample("indices=int64[2,3]{0,3} depth=4 axis=0 on_value=3 off_value=-1 dtype=int64")
        .Sample("indices=int32[2,3,2]{-3,2} depth=3 axis=1 dtype=bool")
        .Sample("indices=int64[4]{0,2} depth=3 axis=-2 dtype=float16 on_value=0.5")
        .Sample("indices=int64[]{0,4} depth=5 dtype=uint8")
        .Sample("indices=int64[3]{0,4} depth=0")
        .Sample("indices=int64[0,2] depth=3")
        .Sample("indices=float32[26]{special} depth=3")
        .Register();

}  // namespace
}  // namespace opstep
