// Prepares kernels, and wraps those of wider dtypes in conversions for narrow ones.
#include "ops/kernel_preparation.h"

#include <numeric>

#include "ops/infer.h"
#include "ops/lib/scratch.h"
#include "ops/lib/simd.h"
#include "ops/op.h"

namespace opstep {
namespace {

using ConvertFn = void (*)(const void* from, void* to, int64_t n);

template <typename To, typename From>
OPSTEP_INLINE void ConvertLoop(const void* from, void* to, int64_t n) {
  const From* x = static_cast<const From*>(from);
  To* out = static_cast<To*>(to);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<To>(x[i]);
}

template <typename To, typename From>
void ConvertBaseline(const void* from, void* to, int64_t n) {
  ConvertLoop<To, From>(from, to, n);
}

#if defined(__x86_64__)
template <typename To, typename From>
[[gnu::target("avx2")]] void ConvertAvx2(const void* from, void* to, int64_t n) {
  ConvertLoop<To, From>(from, to, n);
}
#endif

template <typename To, typename From>
ConvertFn BestConvert() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return ConvertAvx2<To, From>;
#endif
  return ConvertBaseline<To, From>;
}

// The conversion of a tensor of the call; null functions: the kernel sees it as it is.
struct Operand {
  ConvertFn widen = nullptr;
  ConvertFn narrow = nullptr;
  bool is_read = false;
};

struct State {
  Kernel kernel;
  // Inputs, then outputs.
  std::vector<Operand> operands;
  std::vector<uint32_t> args;
};

Operand MakeOperand(const SlotSchema& slot, DType dtype, bool is_input) {
  Operand operand;
  if (!slot.dtypes.Widens(dtype)) return operand;
  operand.is_read = is_input && !slot.shape_only;
  DispatchEvery(dtype, [&](auto t) {
    using Narrow = decltype(t);
    using Wide = std::conditional_t<std::is_integral_v<Narrow>, int32_t, float>;
    operand.widen = BestConvert<Wide, Narrow>();
    operand.narrow = BestConvert<Narrow, Wide>();
  });
  return operand;
}

void Run(KernelContext& ctx) {
  const State& state = ctx.state<State>();
  const int n = ctx.n_in() + ctx.n_out();
  Scratch scratch;
  std::vector<Tensor> slots(n);
  for (int i = 0; i < n; ++i) {
    const Operand& operand = state.operands[i];
    const Tensor& given = i < ctx.n_in() ? ctx.in(i) : ctx.out(i - ctx.n_in());
    if (operand.widen == nullptr || !given) {
      slots[i] = given;
    } else {
      slots[i] = Tensor({Widened(given.dtype), given.dims});
      slots[i].data = scratch.Take(slots[i].bytes());
      if (operand.is_read) operand.widen(given.data, slots[i].data, given.numel);
    }
  }
  KernelCall call = *ctx.call;
  call.run = state.kernel.run;
  call.state = state.kernel.state.get();
  call.args = state.args.data();
  KernelContext wide = ctx.Over(slots.data());
  wide.call = &call;
  call.run(wide);
  for (int i = 0; i < ctx.n_out(); ++i) {
    const Operand& operand = state.operands[ctx.n_in() + i];
    Tensor& out = ctx.out(i);
    if (operand.narrow != nullptr && out) operand.narrow(wide.out(i).data, out.data, out.numel);
  }
}

}  // namespace

Kernel PrepareKernel(const PrepareContext& ctx) {
  const OpDef& def = GetOp(ctx.op().type());
  const std::vector<Arg> in_args = InputArgs(ctx.op().desc(), 0);
  const std::vector<Arg> out_args = OutputArgs(ctx.op().desc(), 0);
  State state;
  bool widens = false;
  const auto seen = [&](const Arg& arg, const VarType& type, bool is_input) {
    state.operands.push_back(MakeOperand(*arg.slot, type.dtype, is_input));
    const bool converts = state.operands.back().widen != nullptr;
    widens |= converts;
    return VarType{converts ? Widened(type.dtype) : type.dtype, type.dims};
  };
  std::vector<VarType> in, out;
  std::vector<const Tensor*> values;
  for (int i = 0; i < ctx.n_in(); ++i) {
    in.push_back(seen(in_args[i], ctx.in(i), true));
    values.push_back(in.back() == ctx.in(i) ? ctx.value(i) : nullptr);
  }
  for (int i = 0; i < ctx.n_out(); ++i) out.push_back(seen(out_args[i], ctx.out(i), false));
  if (!widens) return def.prepare(ctx);
  state.args.resize(state.operands.size());
  std::iota(state.args.begin(), state.args.end(), 0);
  state.kernel =
      def.prepare(PrepareContext(ctx.op(), std::move(in), std::move(out), std::move(values)));
  return WithState(Run, std::move(state));
}

}  // namespace opstep
