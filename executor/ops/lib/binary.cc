// The loops around the rows of elementwise ops of X and Y, for all ops and dtypes.
#include "ops/lib/binary.h"

#include <algorithm>
#include <cstring>

#include "ops/lib/prefetch.h"

namespace opstep {
namespace {

struct BinaryState {
  BinaryRowsFn run;
  int64_t size_in;
  int64_t size_out;
  // Whether X and Y advance within a row.
  bool along_x;
  bool along_y;
  // Elements of a row, and the loops over the rows; only for several rows.
  int64_t row_size;
  LoopNest<2> rows;
};

// Equal shapes, or one side has a single element.
void RunFlat(KernelContext& ctx) {
  const auto& state = ctx.state<BinaryState>();
  const Tensor& out = ctx.out(0);
  if (out.numel == 0) return;
  const auto* x = static_cast<const char*>(ctx.in(0).data);
  const auto* y = static_cast<const char*>(ctx.in(1).data);
  auto* to = static_cast<char*>(out.data);
  const char* in = state.along_x ? x : y;
  const int64_t bytes = out.numel * state.size_out;
  if (!WorthAsking(to, in, bytes)) {
    state.run({x, y, to, out.numel, 1, 0, 0});
    return;
  }
  WriteInOrder(to, in, bytes, [&](int64_t begin, int64_t end) OPSTEP_INLINE_LAMBDA {
    const int64_t at = begin / state.size_out * state.size_in;
    state.run({x + (state.along_x ? at : 0), y + (state.along_y ? at : 0), to + begin,
               (end - begin) / state.size_out, 1, 0, 0});
  });
}

void RunRows(KernelContext& ctx) {
  const auto& state = ctx.state<BinaryState>();
  const LoopNest<2>& nest = state.rows;
  const auto* x = static_cast<const char*>(ctx.in(0).data);
  const auto* y = static_cast<const char*>(ctx.in(1).data);
  auto* to = static_cast<char*>(ctx.out(0).data);
  const char* end = to + ctx.out(0).numel * state.size_out;
  const auto [step_x, step_y] = nest.stride[nest.rank - 1];
  const int64_t rows = nest.inner_size();
  const int64_t row_bytes = state.row_size * state.size_out;
  const bool asks = WorthAsking(to, x, end - to);
  constexpr int64_t kAhead = 4096;
  const int64_t at_once = asks ? std::clamp<int64_t>(kAhead / row_bytes, 1, rows) : rows;
  ForEachRun(nest, [&](const std::array<int64_t, 2>& at) OPSTEP_INLINE_LAMBDA {
    for (int64_t row = 0; row < rows; row += at_once) {
      const int64_t count = std::min(at_once, rows - row), bytes = count * row_bytes;
      if (asks) AskFor(to, bytes, std::min<int64_t>(2 * bytes, end - to));
      state.run({x + (at[0] + row * step_x) * state.size_in,
                 y + (at[1] + row * step_y) * state.size_in, to, state.row_size, count, step_x,
                 step_y});
      to += bytes;
    }
  });
}

// Inputs that the gradient does not read have no memory.
const char* Moved(const char* p, int64_t bytes) { return p ? p + bytes : p; }

void RunGradSide(KernelContext& ctx, const BinaryGradState& state, bool is_x) {
  const BinaryGradState::Side& side = is_x ? state.x : state.y;
  const Tensor& grad = ctx.out(is_x ? 0 : 1);
  const Tensor& dout = ctx.in(state.needs_out ? 3 : 2);
  const auto* x = static_cast<const char*>(ctx.in(0).data);
  const auto* y = static_cast<const char*>(ctx.in(1).data);
  const auto* out = state.needs_out ? static_cast<const char*>(ctx.in(2).data) : nullptr;
  const auto* d = static_cast<const char*>(dout.data);
  auto* first = static_cast<char*>(grad.data);
  const int64_t n = state.nest.inner_size(), bytes = n * state.size;
  if (side.sums) std::memset(first, 0, grad.bytes());
  const char* end = first + grad.numel * state.size;
  const bool asks = !side.sums && WorthAsking(first, d, end - first);
  ForEachRun(state.nest, [&](const std::array<int64_t, 2>& at) OPSTEP_INLINE_LAMBDA {
    char* to = first + at[is_x ? 0 : 1] * state.size;
    if (asks) AskFor(to, bytes, std::min<int64_t>(2 * bytes, end - to));
    side.run({Moved(x, at[0] * state.size), Moved(y, at[1] * state.size), out, d, to, n});
    out = Moved(out, bytes);
    d += bytes;
  });
}

}  // namespace

Kernel BinaryKernel(const PrepareContext& ctx, const LoopNest<2>& nest, BinaryRowsFn run,
                    int64_t size_in, int64_t size_out) {
  BinaryState state{run, size_in, size_out, nest.along(0), nest.along(1), nest.inner_size(), nest};
  if (nest.rank == 1) return SplitFlat(ctx, WithState(RunFlat, std::move(state)));
  --state.rows.rank;
  return WithState(RunRows, std::move(state));
}

void RunBinaryGrad(KernelContext& ctx) {
  const auto& state = ctx.state<BinaryGradState>();
  // dX last: it may lie in the memory of dout.
  if (ctx.out(1)) RunGradSide(ctx, state, false);
  if (state.passes_on && !state.x.sums && ctx.out(0).data == ctx.in(2).data) return;
  if (ctx.out(0)) RunGradSide(ctx, state, true);
}

}  // namespace opstep
