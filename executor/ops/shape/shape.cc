// shape and size: the sizes of a tensor, and its number of elements, as numbers.
// A plan knows all shapes, so the kernels only copy them.
#include <algorithm>
#include <limits>

#include "ops/op.h"

namespace opstep {
namespace {

// Axes begin … end - 1 of X; both ends are cut off at its axes.
std::pair<int, int> AxesOf(const OpView& op, const Dims& x) {
  const auto clamp = [&](int64_t axis) {
    const int64_t from_end = axis < 0 ? axis + x.rank() : axis;
    return static_cast<int>(std::clamp<int64_t>(from_end, 0, x.rank()));
  };
  const int begin = clamp(op.Int("start"));
  return {begin, std::max(begin, clamp(op.Int("end")))};
}

void Run(KernelContext& ctx) {
  const Dims& sizes = ctx.state<Dims>();
  std::copy(sizes.begin(), sizes.end(), ctx.out(0).as<int64_t>());
}

constexpr DTypeSet kSizes(DType::kInt64);

const bool kShape =
    Op("shape")
        .Doc("The sizes of a tensor.")
        .In("X", "any shape", kEvery)
        .ShapeOnly()
        .Attr(IntAttr("start", 0), "first axis; negative from the end")
        .Attr(IntAttr("end", std::numeric_limits<int64_t>::max()),
              "the axes stop before it; negative from the end")
        .Out("out", "[number of axes]", kSizes)
        .Shape([](ShapeContext& ctx) {
          const auto [begin, end] = AxesOf(ctx.op(), ctx.in(0).dims);
          ctx.set_out(0, {DType::kInt64, Dims{end - begin}});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const auto [begin, end] = AxesOf(ctx.op(), ctx.in(0).dims);
          return WithState(
              Run, Dims(std::span(ctx.in(0).dims.begin() + begin, ctx.in(0).dims.begin() + end)));
        })
        .Oracle("np.array(X.shape[start:end], np.int64)")
        .Sample("X=[3,5,7]")
        .Sample("X=[3,5,7] start=1")
        .Sample("X=[3,5,7] start=-2 end=-1")
        .Sample("X=[3,5,7] start=-9 end=2")
        .Sample("X=[3,5] start=2 end=1")
        .Sample("X=[]")
        .Sample("X=[0,2]")
        .Register();

const bool kSize = Op("size")
                       .Doc("How many elements a tensor has.")
                       .In("X", "any shape", kEvery)
                       .ShapeOnly()
                       .Out("out", "the number", kSizes)
                       .Shape([](ShapeContext& ctx) {
                         ctx.set_out(0, {DType::kInt64, Dims{}});
                       })
                       .Prepare([](const PrepareContext& ctx) -> Kernel {
                         return WithState(Run, Dims{ctx.in(0).dims.numel()});
                       })
                       .Oracle("np.array(X.size, np.int64)")
                       .Sample("X=[3,5,7]")
                       .Sample("X=[]")
                       .Sample("X=[0,2]")
                       .Register();

}  // namespace
}  // namespace opstep
