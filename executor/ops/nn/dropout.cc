// dropout: zeros at random while training, and its gradient.
#include <string>

#include "ops/grad/terms.h"
#include "ops/lib/dispatch.h"
#include "ops/lib/element_random.h"
#include "ops/lib/shape_rules.h"
#include "ops/lib/unary.h"
#include "ops/op.h"

namespace opstep {
namespace {

struct State {
  int64_t seed = 0;
  // Elements whose random bits are below it become 0.
  int32_t threshold = 0;
  double scale = 1.0;
};

State MakeState(const OpView& op) {
  State state;
  if (!op.Bool("training_mode")) return state;
  const double ratio = op.Float("ratio");
  state.threshold = static_cast<int32_t>(ratio * 0x1p31);
  state.scale = 1.0 / (1.0 - ratio);
  return state;
}

template <typename T>
struct Body {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const State& state = ctx.state<State>();
    const ElementRandom random(state.seed, CountOf(ctx.in(1)));
    const T* x = ctx.in(0).as<T>();
    T* out = ctx.out(0).as<T>();
    bool* mask = ctx.out(1).as<bool>();
    const T scale = static_cast<T>(state.scale);
    const int32_t threshold = state.threshold;
    random.ForEach(ctx.out(0).numel, [&](int64_t i, int32_t bits) OPSTEP_INLINE_LAMBDA {
      const bool keep = bits >= threshold;
      mask[i] = keep;
      const T kept = x[i] * scale;
      out[i] = keep ? kept : T(0);
    });
  }
};

void RunNothing(KernelContext& ctx) {
  const Tensor& x = ctx.in(0);
  Tensor& out = ctx.out(0);
  if (out.data != x.data && out.numel > 0) std::memcpy(out.data, x.data, out.bytes());
  std::fill_n(ctx.out(1).as<bool>(), out.numel, true);
}

// Inputs mask, dout.
template <typename T>
struct GradBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    // Read as bytes: for bools GCC generates an unpredictable branch.
    const uint8_t* mask = ctx.in(0).as<uint8_t>();
    const T* dout = ctx.in(1).as<T>();
    T* dx = ctx.out(0).as<T>();
    const T scale = static_cast<T>(ctx.state<State>().scale);
    const int64_t n = ctx.out(0).numel;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const T kept = dout[i] * scale;
      dx[i] = mask[i] != 0 ? kept : T(0);
    }
  }
};

const bool kDropout =
    Op("dropout")
        .Doc(
            "While training, sets elements to 0 at random and makes the others larger, so that the "
            "mean stays; otherwise X.")
        .In("X", "any shape", kFloats)
        .In("count", kCountDoc, DTypeSet(DType::kInt64))
        .Optional()
        .Attr(FloatAttr("ratio", 0.5), "the share of elements to drop, 0 or more and below 1")
        .Attr(BoolAttr("training_mode", false), "whether anything is dropped")
        .Attr(IntAttr("seed", 0), "equal seeds and counts give equal numbers on every machine")
        .Out("out", "X / (1 - ratio), or 0 where it was dropped", kFloats)
        .InplaceOf("X")
        .Out("mask", "false where an element was dropped", kBools)
        .Shape([](ShapeContext& ctx) {
          const double ratio = ctx.op().Float("ratio");
          OPSTEP_CHECK(ratio >= 0.0 && ratio < 1.0, "ratio is ", ratio,
                       ": it must be 0 or more and below 1");
          CheckCount(ctx.in(1).dims);
          ctx.set_out(0, ctx.in(0));
          ctx.set_out(1, {DType::kBool, ctx.in(0).dims});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          if (!ctx.op().Bool("training_mode")) return {RunNothing, nullptr};
          State state = MakeState(ctx.op());
          state.seed = ctx.op().Int("seed");
          return DispatchFloats(ctx.in(0).dtype, [&](auto t) -> Kernel {
            return WithState(Best<Body<decltype(t)>>(), state);
          });
        })
        .Grad([](GradContext& g) { g.EmitGrad("dropout_grad", {}, {"mask"}, {"out"}, {"X"}); })
        .Oracle(std::string(kBitsOracle) + R"(
mask = bits >= int(ratio * 2.0**31) if training_mode else np.ones(X.shape, bool)
scale = X.dtype.type(1 / (1 - ratio)) if training_mode else X.dtype.type(1)
(np.where(mask, X * scale, X.dtype.type(0)), mask)
)")
        .Sample("X=[37,19] training_mode=True")
        .Sample("X=[100] ratio=0.25 training_mode=True seed=7")
        .Sample("X=[5,9] count=int64[]{3,9} ratio=0.9 training_mode=True")
        .Sample("X=[5,9] count=int64[1]{-9,-3} ratio=0.1 training_mode=True seed=-1")
        .Sample("X=[7] ratio=0 training_mode=True")
        .Sample("X=[7]")
        .Sample("X=[] training_mode=True")
        .Sample("X=[0,3] training_mode=True")
        .Register();

const bool kDropoutGrad = Op("dropout_grad")
                              .Doc("Gradient of dropout: dout / (1 - ratio), or 0.")
                              .In("mask", "output of dropout", kBools)
                              .In("dout", "gradient of out", kFloats)
                              .Attr(FloatAttr("ratio", 0.5), "as in dropout")
                              .Attr(BoolAttr("training_mode", false), "as in dropout")
                              .Out("dX", "gradient of X", kFloats)
                              .InplaceOf("dout")
                              .Shape(OutLikeInput<1>)
                              .Prepare([](const PrepareContext& ctx) -> Kernel {
                                const State state = MakeState(ctx.op());
                                return DispatchFloats(ctx.out(0).dtype, [&](auto t) -> Kernel {
                                  return WithState(Best<GradBody<decltype(t)>>(), state);
                                });
                              })
                              .Grad(FlatGradient)
                              .Register();

}  // namespace
}  // namespace opstep
