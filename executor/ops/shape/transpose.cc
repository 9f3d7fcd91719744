// transpose: the tensor with its axes in another order, in cache-sized tiles.
#include "ops/lib/loop_nest.h"
#include "ops/lib/shape_rules.h"
#include "ops/op.h"

namespace opstep {
namespace {

// Output axis i is axis perm[i] of X; without perm the axes are reversed.
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

// Rows of out are columns of X: both are walked in small tiles, so that neither side jumps far
// through memory.
struct State {
  // Operands X and out, over the axes that are not in a tile.
  LoopNest<2> nest;
  // The axis along which X is contiguous, and the one along which out is.
  int64_t rows = 1, row_step = 0;  // in out
  int64_t cols = 1, col_step = 0;  // in X
};

struct Axis {
  int64_t size;
  int64_t in_x;
  int64_t in_out = 0;
};

State Analyse(const Dims& x, const std::vector<int>& perm) {
  State s;
  s.nest.empty = x.numel() == 0;
  if (s.nest.empty) return s;
  std::array<int64_t, Dims::kMaxRank> stride{};
  int64_t dense = 1;
  for (int i = x.rank() - 1; i >= 0; --i) {
    stride[i] = dense;
    dense *= x[i];
  }
  // Axes that are contiguous on both sides are joined.
  std::vector<Axis> axes;
  for (int axis : perm) {
    if (x[axis] == 1) continue;
    if (!axes.empty() && axes.back().in_x == stride[axis] * x[axis]) {
      axes.back().size *= x[axis];
      axes.back().in_x = stride[axis];
    } else {
      axes.push_back({x[axis], stride[axis]});
    }
  }
  dense = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    axis->in_out = dense;
    dense *= axis->size;
  }
  if (!axes.empty()) {
    s.cols = axes.back().size;
    s.col_step = axes.back().in_x;
    axes.pop_back();
  }
  if (s.col_step > 1) {
    const auto together =
        std::find_if(axes.begin(), axes.end(), [](const Axis& axis) { return axis.in_x == 1; });
    s.rows = together->size;
    s.row_step = together->in_out;
    axes.erase(together);
  }
  s.nest.rank = 0;
  for (const Axis& axis : axes) {
    s.nest.size[s.nest.rank] = axis.size;
    s.nest.stride[s.nest.rank++] = {axis.in_x, axis.in_out};
  }
  // ForEachRun leaves the last axis to its caller.
  s.nest.size[s.nest.rank++] = 1;
  return s;
}

template <typename T>
void Run(KernelContext& ctx) {
  constexpr int64_t kTile = 64 / sizeof(T) < 16 ? 16 : 64 / sizeof(T);
  const State& s = ctx.state<State>();
  ForEachRun(s.nest, [&](const std::array<int64_t, 2>& at) {
    const T* x = ctx.in(0).as<T>() + at[0];
    T* out = ctx.out(0).as<T>() + at[1];
    if (s.col_step <= 1) {
      std::copy_n(x, s.cols, out);
      return;
    }
    for (int64_t j = 0; j < s.cols; j += kTile) {
      const int64_t cols = std::min(kTile, s.cols - j);
      for (int64_t i = 0; i < s.rows; i += kTile) {
        const int64_t rows = std::min(kTile, s.rows - i);
        for (int64_t r = i; r < i + rows; ++r) {
          const T* from = x + r + j * s.col_step;
          T* to = out + r * s.row_step + j;
          for (int64_t c = 0; c < cols; ++c) to[c] = from[c * s.col_step];
        }
      }
    }
  });
}

Kernel Prepare(const PrepareContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  const State state = Analyse(x, Perm(ctx.op(), x));
  switch (SizeOf(ctx.in(0).dtype)) {
    case 1:
      return WithState(Run<uint8_t>, state);
    case 2:
      return WithState(Run<uint16_t>, state);
    case 4:
      return WithState(Run<uint32_t>, state);
    default:
      return WithState(Run<uint64_t>, state);
  }
}

const bool kTranspose =
    Op("transpose")
        .Doc("The tensor with its axes in another order.")
        .In("X", "any shape", kEvery)
        .Attr(IntsAttr("perm", {}), "axis i of out is axis perm[i] of X; none reverses the order")
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
        .Sample("X=[67,131]")
        .Sample("X=[3,35,5,18] perm=[0,3,1,2]")
        .Sample("X=[2,3,17,19] perm=[3,1,0,2]")
        .Sample("X=[4,1,6] perm=[1,0,2]")
        .Sample("X=[7]")
        .Sample("X=[]")
        .Sample("X=[0,3] perm=[1,0]")
        .Register();

}  // namespace
}  // namespace opstep
