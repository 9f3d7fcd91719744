// concat: joins tensors along an axis, and its gradient.
#include "ops/grad/terms.h"
#include "ops/lib/strided_copy.h"

namespace opstep {
namespace {

// Where part i lies in the whole: a loop from the part to the whole.
std::vector<StridedLoop> PartLoops(const std::vector<Dims>& parts, const Dims& whole, int axis) {
  const int64_t stride = DenseStrides(whole)[axis];
  std::vector<StridedLoop> loops;
  int64_t start = 0;
  for (const Dims& part : parts) {
    loops.push_back(BoxLoop(part, part, whole));
    loops.back().to = start * stride;
    start += part[axis];
  }
  return loops;
}

template <typename U>
void Run(KernelContext& ctx) {
  const auto& loops = ctx.state<std::vector<StridedLoop>>();
  U* out = ctx.out(0).as<U>();
  for (int i = 0; i < ctx.n_in(); ++i) CopyAlong(loops[i], ctx.in(i).as<U>(), out);
}

template <typename U>
void RunGrad(KernelContext& ctx) {
  const auto& loops = ctx.state<std::vector<StridedLoop>>();
  const U* dout = ctx.in(0).as<U>();
  for (int i = 0; i < ctx.n_out(); ++i) {
    if (ctx.out(i)) CopyAlong(loops[i], dout, ctx.out(i).as<U>());
  }
}

Kernel Prepare(const PrepareContext& ctx) {
  const Dims& out = ctx.out(0).dims;
  std::vector<Dims> parts;
  for (int i = 0; i < ctx.n_in(); ++i) parts.push_back(ctx.in(i).dims);
  const auto loops = PartLoops(parts, out, NormalizeAxis(ctx.op().Int("axis"), out, "X"));
  return DispatchRaw(ctx.out(0).dtype,
                     [&](auto u) -> Kernel { return WithState(Run<decltype(u)>, loops); });
}

Kernel PrepareGrad(const PrepareContext& ctx) {
  const Dims& dout = ctx.in(0).dims;
  std::vector<Dims> parts;
  for (int i = 1; i < ctx.n_in(); ++i) parts.push_back(ctx.in(i).dims);
  auto loops = PartLoops(parts, dout, NormalizeAxis(ctx.op().Int("axis"), dout, "X"));
  for (StridedLoop& loop : loops) loop = loop.Reversed();
  return DispatchRaw(ctx.in(0).dtype,
                     [&](auto u) -> Kernel { return WithState(RunGrad<decltype(u)>, loops); });
}

void Shape(ShapeContext& ctx) {
  OPSTEP_CHECK(ctx.n_in() > 0, "X is empty: there must be something to join");
  VarType out = ctx.in(0);
  const int axis = NormalizeAxis(ctx.op().Int("axis"), out.dims, "X[0]");
  for (int i = 1; i < ctx.n_in(); ++i) {
    const VarType& x = ctx.in(i);
    bool fits = x.dtype == out.dtype && x.dims.rank() == out.dims.rank();
    for (int d = 0; fits && d < x.dims.rank(); ++d) {
      fits = d == axis || SizesAgree(x.dims[d], out.dims[d]);
    }
    OPSTEP_CHECK(fits, "X[0] is ", ctx.in(0).ToString(), " but X[", i, "] is ", x.ToString(),
                 ": they may differ along axis ", axis, " only");
    for (int d = 0; d < x.dims.rank(); ++d) {
      int64_t& size = out.dims[d];
      if (d != axis) {
        size = size < 0 ? x.dims[d] : size;
      } else {
        size = size < 0 || x.dims[d] < 0 ? -1 : size + x.dims[d];
      }
    }
  }
  ctx.set_out(0, out);
}

const bool kConcat =
    Op("concat")
        .Doc("Joins tensors along an axis.")
        .In("X", "the tensors, alike but for their sizes along the axis", kEvery)
        .Variadic()
        .Required("axis", AttrType::kInt, "the axis; negative from the end")
        .Out("out", "the tensors, one after the other", kEvery)
        .Shape(Shape)
        .Prepare(Prepare)
        .Grad([](GradContext& g) { g.EmitGrad("concat_grad", {"X"}, {}, {"out"}, {"X"}); })
        .Oracle("np.concatenate(X, axis)")
        .Sample("X=[3,5] X=[2,5] axis=0")
        .Sample("X=[3,5] X=[3,1] X=[3,17] axis=1")
        .Sample("X=[2,3,4] X=[2,2,4] axis=-2")
        .Sample("X=[2,1] X=[2,1] X=[2,1] axis=-1")
        .Sample("X=[3] X=[0] X=[2] axis=0")
        .Sample("X=[0,3] X=[0,2] axis=1")
        .Sample("X=[4] axis=0")
        .Register();

const bool kConcatGrad =
    Op("concat_grad")
        .Doc("Gradient of concat: the parts of dout.")
        .In("dout", "gradient of out", kFloats)
        .In("X", "inputs of concat", kFloats)
        .Variadic()
        .ShapeOnly()
        .Attr(IntAttr("axis", 0), "as in concat")
        .Out("dX", "gradients of X", kFloats)
        .Variadic()
        .Optional()
        .Shape([](ShapeContext& ctx) {
          OPSTEP_CHECK(ctx.n_out() == ctx.n_in() - 1, "there are ", ctx.n_in() - 1, " inputs but ",
                       ctx.n_out(), " gradients");
          for (int i = 0; i < ctx.n_out(); ++i) ctx.set_out(i, ctx.in(1 + i));
        })
        .Prepare(PrepareGrad)
        .Grad([](GradContext& g) {
          std::vector<Term> parts;
          for (int i = 0; i < static_cast<int>(g.op().Inputs("X").size()); ++i) {
            const Term part = OutGradient(g, "dX", i);
            parts.push_back(part ? part : Filled(In(g, "X", i), 0));
          }
          Give(g, "dout", ForwardOp(g, {{"X", parts}}, "out"));
        })
        .Register();

}  // namespace
}  // namespace opstep
