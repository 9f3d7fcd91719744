// split: cuts a tensor into parts along an axis, and its gradient.
#include "ops/grad/terms.h"
#include "ops/lib/strided_copy.h"

namespace opstep {
namespace {

// The sizes of the `parts` along the axis; -1 where X's is not known.
std::vector<int64_t> PartSizes(const OpView& op, int64_t whole, int64_t parts) {
  const std::vector<int64_t> given = op.Ints("split");
  const int64_t count = op.Int("num_outputs");
  if (!given.empty()) {
    OPSTEP_CHECK(static_cast<int64_t>(given.size()) == parts && (count == 0 || count == parts),
                 "split names ", given.size(), " sizes but there are ", parts, " outputs");
    int64_t sum = 0;
    for (int64_t size : given) {
      OPSTEP_CHECK(size >= 0 && !__builtin_add_overflow(sum, size, &sum), "split holds ", size,
                   ": every size must be 0 or more, and their sum a size");
    }
    OPSTEP_CHECK(SizesAgree(sum, whole), "the sizes in split add up to ", sum, " but X has ", whole,
                 " along the axis");
    return given;
  }
  OPSTEP_CHECK(parts > 0 && (count == 0 || count == parts), "num_outputs is ", count,
               " but there are ", parts, " outputs");
  if (whole < 0) return std::vector<int64_t>(parts, -1);
  // The last one is smaller when the parts cannot be equal.
  const int64_t each = (whole + parts - 1) / parts;
  const int64_t rest = whole - each * (parts - 1);
  OPSTEP_CHECK(rest >= 0, "X has ", whole, " along the axis, too few for ", parts, " parts of ",
               each, ": give their sizes in split");
  std::vector<int64_t> sizes(parts, each);
  sizes.back() = rest;
  return sizes;
}

// Loops from the whole to its parts.
std::vector<StridedLoop> PartLoops(const OpView& op, const Dims& whole, int64_t parts) {
  const int axis = NormalizeAxis(op.Int("axis"), whole, "X");
  const int64_t stride = DenseStrides(whole)[axis];
  std::vector<StridedLoop> loops;
  int64_t start = 0;
  for (int64_t size : PartSizes(op, whole[axis], parts)) {
    Dims part = whole;
    part[axis] = size;
    loops.push_back(BoxLoop(part, whole, part));
    loops.back().from = start * stride;
    start += size;
  }
  return loops;
}

template <typename U>
void Run(KernelContext& ctx) {
  const auto& loops = ctx.state<std::vector<StridedLoop>>();
  const U* x = ctx.in(0).as<U>();
  for (int i = 0; i < ctx.n_out(); ++i) {
    if (ctx.out(i)) CopyAlong(loops[i], x, ctx.out(i).as<U>());
  }
}

template <typename U>
void RunGrad(KernelContext& ctx) {
  const auto& loops = ctx.state<std::vector<StridedLoop>>();
  U* dx = ctx.out(0).as<U>();
  for (int i = 0; i < static_cast<int>(loops.size()); ++i) {
    if (const Tensor& dout = ctx.in(1 + i)) {
      CopyAlong(loops[i], dout.as<U>(), dx);
    } else {
      // Unused part: a zero is spread over it.
      StridedLoop zeros = loops[i];
      for (int d = 0; d < zeros.rank; ++d) zeros.axes[d].from = 0;
      const U zero = 0;
      CopyAlong(zeros, &zero, dx);
    }
  }
}

const bool kSplit =
    Op("split")
        .Doc("Cuts a tensor into parts along an axis.")
        .In("X", "any shape", kEvery)
        .Attr(IntAttr("axis", 0), "the axis; negative from the end")
        .Attr(IntsAttr("split", {}), "the parts' sizes along the axis; none makes them equal")
        .Attr(IntAttr("num_outputs", 0),
              "the number of parts; 0 means as many as there are outputs; the last one is smaller "
              "when they cannot be equal")
        .Out("out", "the parts", kEvery)
        .Variadic()
        .Shape([](ShapeContext& ctx) {
          VarType part = ctx.in(0);
          const int axis = NormalizeAxis(ctx.op().Int("axis"), part.dims, "X");
          const auto sizes = PartSizes(ctx.op(), part.dims[axis], ctx.n_out());
          for (int i = 0; i < ctx.n_out(); ++i) {
            part.dims[axis] = sizes[i];
            ctx.set_out(i, part);
          }
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const auto loops = PartLoops(ctx.op(), ctx.in(0).dims, ctx.n_out());
          return DispatchRaw(ctx.in(0).dtype,
                             [&](auto u) -> Kernel { return WithState(Run<decltype(u)>, loops); });
        })
        .Grad([](GradContext& g) { g.EmitGrad("split_grad", {"X"}, {}, {"out"}, {"X"}); })
        .Oracle(R"(
n = X.shape[axis]
each = -(-n // num_outputs) if num_outputs else 0
sizes = split or [each] * (num_outputs - 1) + [n - each * (num_outputs - 1)]
tuple(np.split(X, np.cumsum(sizes)[:-1], axis))
)")
        .Sample("X=[5,4] split=[2,3]")
        .Sample("X=[3,18] axis=1 split=[1,17]")
        .Sample("X=[2,6,5] axis=-2 num_outputs=3")
        .Sample("X=[7] num_outputs=3")
        .Sample("X=[4,3] axis=-1 num_outputs=3")
        .Sample("X=[5] split=[0,5]")
        .Sample("X=[0,4] axis=1 num_outputs=2")
        .Sample("X=[3,2] num_outputs=1")
        .Register();

const bool kSplitGrad =
    Op("split_grad")
        .Doc("Gradient of split: its parts put together, zeros where there is none.")
        .In("X", "input of split", kFloats)
        .ShapeOnly()
        .In("dout", "gradients of the parts", kFloats)
        .Variadic()
        .Optional()
        .Attr(IntAttr("axis", 0), "as in split")
        .Attr(IntsAttr("split", {}), "as in split")
        .Attr(IntAttr("num_outputs", 0), "as in split")
        .Out("dX", "gradient of X", kFloats)
        .Shape(OutLikeInput<0>)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          auto loops = PartLoops(ctx.op(), ctx.in(0).dims, ctx.n_in() - 1);
          for (StridedLoop& loop : loops) loop = loop.Reversed();
          return DispatchRaw(ctx.out(0).dtype, [&](auto u) -> Kernel {
            return WithState(RunGrad<decltype(u)>, loops);
          });
        })
        .Grad([](GradContext& g) {
          Names parts;
          for (int i = 0; i < static_cast<int>(g.op().Inputs("dout").size()); ++i) {
            const std::string part = g.InGrad("dout", i);
            parts.push_back(part.empty() ? g.Fresh("unused") : part);
          }
          g.Emit("split", {{"X", {g.OutGrad("dX")}}}, {{"out", parts}},
                 {g.op().desc().attrs().begin(), g.op().desc().attrs().end()});
        })
        .Register();

}  // namespace
}  // namespace opstep
