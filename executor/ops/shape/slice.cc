// slice: the elements from start to end in steps along each axis, and its gradient.
#include "ops/grad/terms.h"
#include "ops/lib/strided_copy.h"

namespace opstep {
namespace {

// One axis: indices start, start + step, … `size` of them; -1 when X's size is not known.
struct Range {
  int64_t start = 0, step = 1, size = 0;
};

// As Python's slices: negative ends count from the end, and indices outside are cut off.
Range RangeOf(int64_t start, int64_t end, int64_t step, int64_t size) {
  if (size < 0) return {0, step, -1};
  start += start < 0 ? size : 0;
  end += end < 0 ? size : 0;
  if (step > 0) {
    start = std::clamp<int64_t>(start, 0, size);
    end = std::clamp<int64_t>(end, start, size);
    return {start, step, end == start ? 0 : (end - start - 1) / step + 1};
  }
  start = std::clamp<int64_t>(start, -1, size - 1);
  end = std::clamp<int64_t>(end, -1, start);
  // -(step + 1) and not -step: the smallest integer has no opposite.
  return {start, step,
          end == start ? 0
                       : static_cast<int64_t>(static_cast<uint64_t>(start - end - 1) /
                                              (static_cast<uint64_t>(-(step + 1)) + 1)) +
                             1};
}

std::vector<Range> Ranges(const OpView& op, const Dims& x) {
  const std::vector<int64_t> starts = op.Ints("starts"), ends = op.Ints("ends"),
                             axes = op.Ints("axes"), steps = op.Ints("steps");
  const size_t n = starts.size();
  OPSTEP_CHECK(ends.size() == n && (axes.empty() || axes.size() == n) &&
                   (steps.empty() || steps.size() == n),
               "starts names ", n, " places, ends ", ends.size(), ", axes ", axes.size(),
               " and steps ", steps.size(), ": there must be one for each axis");
  std::vector<Range> ranges;
  for (int64_t size : x) ranges.push_back({0, 1, size});
  std::array<bool, Dims::kMaxRank> seen{};
  for (size_t i = 0; i < n; ++i) {
    const int axis = NormalizeAxis(axes.empty() ? static_cast<int64_t>(i) : axes[i], x, "X");
    OPSTEP_CHECK(!seen[axis], "axes names axis ", axis, " twice");
    seen[axis] = true;
    const int64_t step = steps.empty() ? 1 : steps[i];
    OPSTEP_CHECK(step != 0, "the step along axis ", axis, " is 0: it must go up or down");
    ranges[axis] = RangeOf(starts[i], ends[i], step, x[axis]);
  }
  return ranges;
}

// From X to the slice.
StridedLoop SliceLoop(const OpView& op, const Dims& x, const Dims& out) {
  const Strides from = DenseStrides(x), to = DenseStrides(out);
  const std::vector<Range> ranges = Ranges(op, x);
  StridedLoop loop;
  for (int i = 0; i < x.rank(); ++i) {
    const Range& range = ranges[i];
    // A step is not taken when there is one element, and may be too large to multiply.
    loop.Add(range.size, range.size > 1 ? range.step * from[i] : 0, to[i]);
    loop.from += range.size > 0 ? range.start * from[i] : 0;
  }
  return loop;
}

template <typename U>
void RunGrad(KernelContext& ctx) {
  Tensor& dx = ctx.out(0);
  if (dx.numel != ctx.in(1).numel) std::memset(dx.data, 0, dx.bytes());
  CopyAlong(ctx.state<StridedLoop>(), ctx.in(1).as<U>(), dx.as<U>());
}

const bool kSlice =
    Op("slice")
        .Doc("A part of a tensor: along each axis the elements from start to end in steps.")
        .In("X", "any shape", kEvery)
        .Required("starts", AttrType::kInts, "first index for each axis; negative from the end")
        .Required("ends", AttrType::kInts,
                  "the indices stop before it; negative from the end, cut off at X's size")
        .Attr(IntsAttr("axes", {}), "the axes to slice; none means the first ones")
        .Attr(IntsAttr("steps", {}), "the steps, not 0; negative ones go backwards; none means 1")
        .Out("out", "the part", kEvery)
        .Shape([](ShapeContext& ctx) {
          Dims out;
          for (const Range& range : Ranges(ctx.op(), ctx.in(0).dims)) out.push_back(range.size);
          ctx.set_out(0, {ctx.in(0).dtype, out});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return StridedCopyKernel(ctx.in(0).dtype,
                                   SliceLoop(ctx.op(), ctx.in(0).dims, ctx.out(0).dims));
        })
        .Grad([](GradContext& g) { g.EmitGrad("slice_grad", {"X"}, {}, {"out"}, {"X"}); })
        .Oracle(R"(
index = [slice(None)] * X.ndim
for i, (start, end) in enumerate(zip(starts, ends)):
    axis = axes[i] if axes else i
    step = steps[i] if steps else 1
    # ONNX has no None: before the first element is an end far below.
    stop = None if step < 0 and end < -X.shape[axis] else end
    index[axis] = slice(start, stop, step)
X[tuple(index)]
)")
        .Sample("X=[7,20] starts=[1] ends=[5]")
        .Sample("X=[7,20] starts=[1,0] ends=[-1,19] axes=[0,1]")
        .Sample("X=[5,6,7] starts=[-3,1] ends=[1000,5] axes=[-1,0] steps=[2,3]")
        .Sample("X=[9] starts=[-1] ends=[-1000] steps=[-1]")
        .Sample("X=[4,9] starts=[20,7] ends=[0,-9] axes=[0,1] steps=[-2,-3]")
        .Sample("X=[5,3] starts=[3] ends=[3]")
        .Sample("X=[5,3] starts=[4] ends=[1]")
        .Sample("X=[5,3] starts=[2] ends=[9223372036854775807]")
        .Sample(
            "X=[5] starts=[9223372036854775807] ends=[-9223372036854775808] "
            "steps=[-9223372036854775808]")
        .Sample("X=[0,3] starts=[0,1] ends=[2,3]")
        .Sample("X=[2,3] starts=[] ends=[]")
        .Register();

const bool kSliceGrad =
    MoveGradOp("slice_grad", "Gradient of slice: dout at its place among zeros.", "slice")
        .Attr(IntsAttr("starts", {}), "as in slice")
        .Attr(IntsAttr("ends", {}), "as in slice")
        .Attr(IntsAttr("axes", {}), "as in slice")
        .Attr(IntsAttr("steps", {}), "as in slice")
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const StridedLoop loop = SliceLoop(ctx.op(), ctx.in(0).dims, ctx.in(1).dims).Reversed();
          return DispatchRaw(ctx.out(0).dtype, [&](auto u) -> Kernel {
            return WithState(RunGrad<decltype(u)>, loop);
          });
        })
        .Grad(MovedGradient)
        .Register();

}  // namespace
}  // namespace opstep
