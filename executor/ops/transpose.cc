#include "ops/loop_nest.h"
#include "ops/op.h"
#include "ops/shape_rules.h"

namespace opstep {
namespace {

// Output axis i is axis perm[i] of X; without perm the axes are turned round.
std::vector<int> Perm(const OpView& op, const Dims& x) {
  const std::vector<int64_t> given = op.Ints("perm");
  std::vector<int> perm;
  if (given.empty()) {
    for (int i = x.rank() - 1; i >= 0; --i) perm.push_back(i);
    return perm;
  }
  OPSTEP_CHECK(static_cast<int>(given.size()) == x.rank(), "X is ", x.ToString(),
               " but perm names ", given.size(), " axes: it must name each axis once");
  for (int64_t axis : given) {
    const int a = NormalizeAxis(axis, x, "X");
    OPSTEP_CHECK(std::find(perm.begin(), perm.end(), a) == perm.end(), "perm names axis ", axis,
                 " twice");
    perm.push_back(a);
  }
  return perm;
}

template <typename T>
void Run(KernelContext& ctx) {
  const auto& nest = ctx.state<LoopNest<1>>();
  const T* x = ctx.in(0).as<T>();
  T* out = ctx.out(0).as<T>();
  const int64_t n = nest.inner_size();
  const int64_t step = nest.stride[nest.rank - 1][0];
  ForEachRun(nest, [&](const std::array<int64_t, 1>& at) {
    const T* from = x + at[0];
    for (int64_t i = 0; i < n; ++i) out[i] = from[i * step];
    out += n;
  });
}

Kernel Prepare(const PrepareContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  const std::vector<int> perm = Perm(ctx.op(), x);
  std::array<int64_t, Dims::kMaxRank> stride{};
  int64_t dense = 1;
  for (int i = x.rank() - 1; i >= 0; --i) {
    stride[i] = dense;
    dense *= x[i];
  }
  LoopNest<1> nest;
  nest.rank = 0;
  for (int axis : perm) {
    nest.size[nest.rank] = x[axis];
    nest.stride[nest.rank++][0] = stride[axis];
    nest.empty |= x[axis] == 0;
  }
  if (nest.rank == 0) nest.size[nest.rank++] = 1;
  switch (SizeOf(ctx.in(0).dtype)) {
    case 1:
      return WithState(Run<uint8_t>, nest);
    case 2:
      return WithState(Run<uint16_t>, nest);
    case 4:
      return WithState(Run<uint32_t>, nest);
    default:
      return WithState(Run<uint64_t>, nest);
  }
}

const bool kTranspose =
    Op("transpose")
        .Doc("The tensor with its axes in another order.")
        .In("X", "any shape", kEvery)
        .Attr(IntsAttr("perm", {}),
              "axis i of out is axis perm[i] of X; none turns the order round")
        .Out("out", "the elements of X", kEvery)
        .Shape([](ShapeContext& ctx) {
          const Dims& x = ctx.in(0).dims;
          Dims out;
          for (int axis : Perm(ctx.op(), x)) out.push_back(x[axis]);
          ctx.set_out(0, {ctx.in(0).dtype, out});
        })
        .Prepare(Prepare)
        .Grad([](GradContext& g) {
          std::vector<int64_t> perm = g.op().Ints("perm"), inverse(perm.size());
          for (size_t i = 0; i < perm.size(); ++i) {
            const int64_t axis =
                perm[i] < 0 ? perm[i] + static_cast<int64_t>(perm.size()) : perm[i];
            inverse[axis] = static_cast<int64_t>(i);
          }
          g.Emit("transpose", {{"X", {g.OutGrad("out")}}}, {{"out", {g.InGrad("X")}}},
                 {IntsAttr("perm", inverse)});
        })
        .Oracle("np.transpose(X, perm or None)")
        .Sample("X=[3,5]")
        .Sample("X=[2,3,4] perm=[2,0,1]")
        .Sample("X=[2,1,3,4] perm=[0,-1,1,2]")
        .Sample("X=[7]")
        .Sample("X=[]")
        .Sample("X=[0,3] perm=[1,0]")
        .Register();

}  // namespace
}  // namespace opstep
