// Calls an elementwise kernel for ranges of its tensors, as ops with smaller tensors.
#include "ops/lib/split_flat.h"

#include <algorithm>
#include <array>

#include "ops/lib/threads.h"

namespace opstep {
namespace {

// A range must be worth waking a thread.
constexpr int64_t kRange = 1 << 15;
constexpr int kMostArgs = 12;

// One range of an op's tensors, as a separate op.
class RangeCall {
 public:
  RangeCall(const KernelContext& ctx, const Kernel& kernel, int64_t begin, int64_t end) {
    const int64_t whole = ctx.out(0).numel;
    call_ = *ctx.call;
    call_.run = kernel.run;
    call_.state = kernel.state.get();
    call_.args = numbers_.data();
    for (int i = 0; i < ctx.n_in() + ctx.n_out(); ++i) {
      const Tensor& from = i < ctx.n_in() ? ctx.in(i) : ctx.out(i - ctx.n_in());
      numbers_[i] = static_cast<uint32_t>(i);
      Tensor& view = views_[i];
      view.dtype = from.dtype;
      view.data = from.data;
      view.numel = from.numel;
      if (from.data == nullptr || from.numel != whole) continue;
      view.data = static_cast<char*>(from.data) + begin * SizeOf(from.dtype);
      view.numel = end - begin;
    }
  }

  void Run() {
    KernelContext ctx(views_.data(), nullptr);
    ctx.call = &call_;
    call_.run(ctx);
  }

 private:
  KernelCall call_;
  std::array<uint32_t, kMostArgs> numbers_;
  std::array<Tensor, kMostArgs> views_;
};

void RunSplit(KernelContext& ctx) {
  const Kernel& kernel = ctx.state<Kernel>();
  const int64_t n = ctx.out(0).numel;
  const int64_t threads = NumThreads();
  const int64_t ranges = threads == 1 ? 1 : std::min(4 * threads, n / kRange);
  // Whole lines of memory: no two threads write into the same one.
  constexpr int64_t kLine = 64;
  const auto cut = [&](int64_t i) { return i == ranges ? n : n * i / ranges / kLine * kLine; };
  ParallelFor(ranges, [&](int64_t i) { RangeCall(ctx, kernel, cut(i), cut(i + 1)).Run(); });
}

}  // namespace

Kernel SplitFlat(const PrepareContext& ctx, Kernel kernel) {
  const int64_t n = ctx.out(0).dims.numel();
  if (n < 2 * kRange || ctx.n_in() + ctx.n_out() > kMostArgs) return kernel;
  for (int i = 0; i < ctx.n_in(); ++i) {
    const VarType& type = ctx.in(i);
    const bool fits =
        type.dtype == DType::kNone || type.dims.numel() == n || type.dims.numel() == 1;
    if (!fits) return kernel;
  }
  return WithState(RunSplit, std::move(kernel));
}

}  // namespace opstep
