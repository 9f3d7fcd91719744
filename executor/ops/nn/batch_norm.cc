// batch_norm: normalizes each channel over the batch and keeps running moments; its gradient.
#include "ops/nn/plane_norm.h"

namespace opstep {
namespace {

struct State {
  PlaneSets sets;  // one for each channel
  double epsilon = 0, momentum = 0;
  bool training = false;
};

State Analyse(const PrepareContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  State s;
  s.sets = {.sets = x[1],
            .planes_in_set = x[0],
            .set_step = 1,
            .plane_step = x[1],
            .channels = x[1],
            .size = PlaneSize(x)};
  s.epsilon = ctx.op().Float("epsilon");
  s.training = ctx.op().Bool("training_mode");
  OPSTEP_CHECK(!s.training || s.sets.set_size() > 0 || x[1] == 0, "X is ", x.ToString(),
               ": a channel without elements has no mean to train with");
  return s;
}

template <typename T>
void Run(KernelContext& ctx) {
  const State& state = ctx.state<State>();
  const PlaneSets& s = state.sets;
  const T* x = ctx.in(0).as<T>();
  const T* scale = ctx.in(1).as<T>();
  const T* bias = ctx.in(2).as<T>();
  const T* mean = ctx.in(3).as<T>();
  const T* var = ctx.in(4).as<T>();
  T* out = ctx.out(0).as<T>();
  T* mean_out = ctx.out(1).as<T>();
  T* var_out = ctx.out(2).as<T>();
  const T keep = static_cast<T>(state.momentum);
  ParallelRanges(s.sets, 3 * s.set_size(), [&](int64_t begin, int64_t end) OPSTEP_INLINE_LAMBDA {
    for (int64_t c = begin; c < end; ++c) {
      Moments<T> moments{mean[c], var[c]};
      if (state.training) {
        moments = MomentsOfSet(s, x, c);
        if (mean_out != nullptr) mean_out[c] = mean[c] * keep + moments.mean * (T(1) - keep);
        if (var_out != nullptr) var_out[c] = var[c] * keep + moments.variance * (T(1) - keep);
      }
      NormalizeSet(s, c, x, moments.mean, InverseStd(moments.variance, state.epsilon), scale, bias,
                   out);
    }
  });
}

// Inputs X, scale, dout, mean, var (these two unless training); outputs dX, dscale, dbias, dmean,
// dvar.
template <typename T>
void RunGrad(KernelContext& ctx) {
  const State& state = ctx.state<State>();
  const PlaneSets& s = state.sets;
  const T* x = ctx.in(0).as<T>();
  const T* scale = ctx.in(1).as<T>();
  const T* dout = ctx.in(2).as<T>();
  const T* mean = ctx.in(3).as<T>();
  const T* var = ctx.in(4).as<T>();
  T* dx = ctx.out(0).as<T>();
  T* dscale = ctx.out(1).as<T>();
  T* dbias = ctx.out(2).as<T>();
  T* dmean = ctx.out(3).as<T>();
  T* dvar = ctx.out(4).as<T>();
  Scratch scratch;
  const PlaneSums<T> sums(s, scratch);
  ParallelRanges(s.sets, 6 * s.set_size(), [&](int64_t begin, int64_t end) OPSTEP_INLINE_LAMBDA {
    for (int64_t c = begin; c < end; ++c) {
      const Moments<T> moments =
          state.training ? MomentsOfSet(s, x, c) : Moments<T>{mean[c], var[c]};
      const T inv_std = InverseStd(moments.variance, state.epsilon);
      sums.Fill(s, c, x, dout, moments.mean, inv_std);
      if (dx == nullptr) continue;
      if (state.training) {
        BackSet(s, c, sums, x, dout, moments.mean, inv_std, scale, dx);
        continue;
      }
      const T factor = scale[c] * inv_std;
      for (int64_t i = 0; i < s.planes_in_set; ++i) {
        const T* from = dout + s.plane(c, i) * s.size;
        T* to = dx + s.plane(c, i) * s.size;
#pragma GCC ivdep
        for (int64_t j = 0; j < s.size; ++j) to[j] = from[j] * factor;
      }
    }
  });
  if (dscale == nullptr && dbias == nullptr && dmean == nullptr && dvar == nullptr) return;
  T* by_scale = dscale != nullptr ? dscale : scratch.Take<T>(s.channels);
  T* by_bias = dbias != nullptr ? dbias : scratch.Take<T>(s.channels);
  sums.ToChannels(s, by_scale, by_bias);
  for (int64_t c = 0; c < s.channels; ++c) {
    // The moments that are given have no effect while training.
    const T inv_std = state.training ? T(0) : InverseStd(var[c], state.epsilon);
    if (dmean != nullptr) dmean[c] = -by_bias[c] * scale[c] * inv_std;
    if (dvar != nullptr) dvar[c] = by_scale[c] * scale[c] * inv_std * inv_std * T(-0.5);
  }
}

Op WithAttrs(std::string type) {
  Op op(std::move(type));
  op.Attr(FloatAttr("epsilon", 1e-5), "added to the variance")
      .Attr(BoolAttr("training_mode", false),
            "take the moments of X instead of those that are given");
  return op;
}

const bool kBatchNorm =
    WithAttrs("batch_norm")
        .Doc(
            "Gives each channel the mean 0 and the variance 1, then scale and bias. While "
            "training the moments are those of X, and running means of them are kept.")
        .In("X", "[N, C, ...]", kFloats)
        .In("scale", "[C]", kFloats)
        .In("bias", "[C]", kFloats)
        .In("mean", "[C]: the mean of each channel", kFloats)
        .In("var", "[C]: the variance of each channel", kFloats)
        .Attr(FloatAttr("momentum", 0.9), "how much of `mean` and `var` is kept in a step")
        .Out("out", "as X", kFloats)
        .Out("mean_out", "mean * momentum + mean of X * (1 - momentum); only while training",
             kFloats)
        .Optional()
        .InplaceOf("mean")
        .Out("var_out", "var * momentum + variance of X * (1 - momentum); only while training",
             kFloats)
        .Optional()
        .InplaceOf("var")
        .Shape([](ShapeContext& ctx) {
          PlaneNormShape(ctx, {"scale", "bias", "mean", "var"});
          const bool training = ctx.op().Bool("training_mode");
          for (const char* name : {"mean_out", "var_out"}) {
            OPSTEP_CHECK(training || ctx.op().Outputs(name).empty(), name,
                         " is there only with training_mode=True");
          }
          ctx.set_out(1, ctx.in(3));
          ctx.set_out(2, ctx.in(4));
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          State state = Analyse(ctx);
          state.momentum = ctx.op().Float("momentum");
          return DispatchFloats(ctx.in(0).dtype,
                                [&](auto t) { return WithState(Run<decltype(t)>, state); });
        })
        .Grad([](GradContext& g) {
          for (const char* name : {"mean_out", "var_out"}) {
            OPSTEP_CHECK(g.op().Outputs(name).empty() || g.OutGrad(name).empty(),
                         "no gradient flows through ", name);
          }
          Names inputs{"X", "scale"};
          // While training they may have been overwritten, and the gradient does not need them.
          if (!g.op().Bool("training_mode")) inputs.insert(inputs.end(), {"mean", "var"});
          g.EmitGrad("batch_norm_grad", inputs, {}, {"out"}, {"X", "scale", "bias", "mean", "var"});
        })
        .Oracle(R"(
axes = (0, *range(2, X.ndim))
m, v = (X.mean(axis=axes), X.var(axis=axes)) if training_mode else (mean, var)
per_channel = (-1, *[1] * (X.ndim - 2))
unit = (X - m.reshape(per_channel)) / np.sqrt(v.reshape(per_channel) + X.dtype.type(epsilon))
keep = X.dtype.type(momentum)
(unit * scale.reshape(per_channel) + bias.reshape(per_channel),
 mean * keep + m * (1 - keep), var * keep + v * (1 - keep))
)")
        .Sample("X=[2,3,4,5] scale=[3] bias=[3] mean=[3] var=[3]{0.5,2}")
        .Sample("X=[2,3,4,5] scale=[3] bias=[3] mean=[3] var=[3]{0.5,2} training_mode=True")
        .Sample(
            "X=[3,2,7] scale=[2] bias=[2] mean=[2] var=[2]{0.5,2} training_mode=True "
            "momentum=0.25 epsilon=0.5 mean_out=wanted var_out=wanted")
        .Sample("X=[2,2,2,2,3] scale=[2] bias=[2] mean=[2] var=[2]{0.5,2} epsilon=0.5")
        .Sample(
            "X=[5,3] scale=[3] bias=[3] mean=[3] var=[3]{0.5,2} training_mode=True "
            "mean_out=wanted")
        .Sample("X=[0,3,4] scale=[3] bias=[3] mean=[3] var=[3]{0.5,2}")
        .Register();

const bool kBatchNormGrad =
    WithAttrs("batch_norm_grad")
        .Doc("Gradient of batch_norm.")
        .In("X", "as in the forward op", kFloats)
        .In("scale", "as in the forward op", kFloats)
        .In("dout", "gradient of out", kFloats)
        .In("mean", "as in the forward op; not used while training", kFloats)
        .Optional()
        .In("var", "as in the forward op; not used while training", kFloats)
        .Optional()
        .Out("dX", "gradient of X", kFloats)
        .Optional()
        .Out("dscale", "gradient of scale", kFloats)
        .Optional()
        .Out("dbias", "gradient of bias", kFloats)
        .Optional()
        .Out("dmean", "gradient of mean: 0 while training", kFloats)
        .Optional()
        .Out("dvar", "gradient of var: 0 while training", kFloats)
        .Optional()
        .Shape([](ShapeContext& ctx) {
          OPSTEP_CHECK(ctx.op().Bool("training_mode") ||
                           (ctx.in(3).dtype != DType::kNone && ctx.in(4).dtype != DType::kNone),
                       "mean and var are missing");
          ctx.set_out(0, ctx.in(0));
          for (int i = 1; i < ctx.n_out(); ++i) ctx.set_out(i, ctx.in(1));
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const State state = Analyse(ctx);
          return DispatchFloats(ctx.in(0).dtype,
                                [&](auto t) { return WithState(RunGrad<decltype(t)>, state); });
        })
        .Register();

}  // namespace
}  // namespace opstep
