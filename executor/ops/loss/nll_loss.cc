// nll_loss: the negative log-probability of each target's class, and its gradient.
#include <algorithm>

#include "ops/grad/terms.h"
#include "ops/lib/dispatch.h"
#include "ops/loss/label_rows.h"
#include "ops/op.h"

namespace opstep {
namespace {

enum class Reduction { kNone, kSum, kMean };

Reduction ReductionOf(const OpView& op) {
  const std::string& name = op.String("reduction");
  if (name == "none") return Reduction::kNone;
  if (name == "sum") return Reduction::kSum;
  OPSTEP_CHECK(name == "mean", "reduction is '", name, "': it must be 'none', 'sum' or 'mean'");
  return Reduction::kMean;
}

// X is [outer, classes, inner] and target [outer, inner].
struct State {
  int64_t classes = 0, inner = 1;
  Reduction reduction = Reduction::kMean;
  int64_t ignored = 0;
};

State MakeState(const PrepareContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  State state{x[1], 1, ReductionOf(ctx.op()), ctx.op().Int("ignore_index")};
  for (int i = 2; i < x.rank(); ++i) state.inner *= x[i];
  return state;
}

// Calls f(place in target, place in X, class) for each target that is not ignored.
template <typename F>
void ForEachTarget(const State& s, const Tensor& target, F&& f) {
  const int64_t* classes = target.as<int64_t>();
  for (int64_t t = 0; t < target.numel; ++t) {
    const int64_t c = classes[t];
    if (c == s.ignored) continue;
    CheckLabel("target", t, c, s.classes);
    f(t, (t / s.inner * s.classes + c) * s.inner + t % s.inner, c);
  }
}

template <typename T>
T WeightOf(const Tensor& weight, int64_t c) {
  return weight ? weight.as<T>()[c] : T(1);
}

template <typename T>
void Run(KernelContext& ctx) {
  const State& s = ctx.state<State>();
  const T* x = ctx.in(0).as<T>();
  const Tensor& weight = ctx.in(2);
  T* loss = ctx.out(0).as<T>();
  const bool keeps = s.reduction == Reduction::kNone;
  if (keeps) std::fill_n(loss, ctx.out(0).numel, T(0));
  double total = 0, weights = 0;
  ForEachTarget(s, ctx.in(1), [&](int64_t t, int64_t at, int64_t c) {
    const T w = WeightOf<T>(weight, c);
    if (keeps) loss[t] = -x[at] * w;
    total -= x[at] * w;
    weights += w;
  });
  if (s.reduction == Reduction::kSum) *loss = static_cast<T>(total);
  if (s.reduction == Reduction::kMean) *loss = static_cast<T>(total / weights);
}

template <typename T>
void RunGrad(KernelContext& ctx) {
  const State& s = ctx.state<State>();
  const T* x = ctx.in(0).as<T>();
  const Tensor& target = ctx.in(1);
  const Tensor& weight = ctx.in(2);
  const T* d = ctx.in(4).as<T>();
  Tensor& dx = ctx.out(0);
  Tensor& dweight = ctx.out(1);
  if (dx) std::fill_n(dx.as<T>(), dx.numel, T(0));
  if (dweight) std::fill_n(dweight.as<T>(), dweight.numel, T(0));
  double weights = 1;
  T mean = 0;
  if (s.reduction == Reduction::kMean) {
    weights = 0;
    ForEachTarget(s, target,
                  [&](int64_t, int64_t, int64_t c) { weights += WeightOf<T>(weight, c); });
    mean = *ctx.in(3).as<T>();
  }
  const T scale = static_cast<T>(1 / weights);
  ForEachTarget(s, target, [&](int64_t t, int64_t at, int64_t c) {
    const T share = d[s.reduction == Reduction::kNone ? t : 0] * scale;
    if (dx) dx.as<T>()[at] = -WeightOf<T>(weight, c) * share;
    if (dweight) dweight.as<T>()[c] -= (x[at] + mean) * share;
  });
}

void Shape(ShapeContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  const Dims& target = ctx.in(1).dims;
  const VarType& weight = ctx.in(2);
  OPSTEP_CHECK(x.rank() >= 2, "X is ", x.ToString(), ": it must be [N, classes, …]");
  Dims without_classes{x[0]};
  for (int i = 2; i < x.rank(); ++i) without_classes.push_back(x[i]);
  OPSTEP_CHECK(ShapesAgree(target, without_classes), "target is ", target.ToString(), " but X is ",
               x.ToString(), ": target must be as X without its axis 1");
  if (weight.dtype != DType::kNone) {
    CheckSameDType(ctx.in(0), "X", weight, "weight");
    OPSTEP_CHECK(weight.dims.rank() == 1 && SizesAgree(weight.dims[0], x[1]), "weight is ",
                 weight.dims.ToString(), " but X is ", x.ToString(), ": weight must be [classes]");
  }
  const bool keeps = ReductionOf(ctx.op()) == Reduction::kNone;
  ctx.set_out(0, {ctx.in(0).dtype, keeps ? target : Dims{}});
}

Op WithAttrs(Op op) {
  op.Attr(StringAttr("reduction", "mean"),
          "'none', 'sum', or 'mean': the sum divided by that of the weights")
      .Attr(IntAttr("ignore_index", -100), "a target that is left out");
  return op;
}

const bool kNllLoss =
    WithAttrs(Op("nll_loss"))
        .Doc("The negative log-probability of the target's class; X holds log-probabilities.")
        .In("X", "[N, classes, …]", kFloats)
        .In("target", "[N, …]: the right classes", DTypeSet(DType::kInt64))
        .In("weight", "[classes]: how much each class counts; 1 without it", kFloats)
        .Optional()
        .Out("loss", "[], or as target when nothing is reduced", kFloats)
        .Shape(Shape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchFloats(
              ctx.in(0).dtype, [&](auto t) { return WithState(Run<decltype(t)>, MakeState(ctx)); });
        })
        .Grad([](GradContext& g) {
          g.EmitGrad("nll_loss_grad", {"X", "target", "weight"}, {"loss"}, {"loss"},
                     {"X", "weight"});
        })
        .Oracle(R"(
counts = target != ignore_index
classes = np.where(counts, target, 0)
w = (weight if 'weight' in globals() else np.ones(X.shape[1], X.dtype))[classes] * counts
picked = np.take_along_axis(X, np.expand_dims(classes, 1), axis=1).squeeze(1)
loss = (-picked * w).astype(X.dtype)
total = loss.sum(dtype=np.float64)
if reduction == "mean":
    total = total / w.sum(dtype=np.float64)
loss if reduction == "none" else total.astype(X.dtype)
)")
        .Sample("X=[5,7] target=int64[5]{0,6}")
        .Sample("X=[5,7] target=int64[5]{0,6} weight=[7]{0.1,2}")
        .Sample("X=[5,7] target=int64[5]{0,6} weight=[7]{0.1,2} reduction=sum")
        .Sample("X=[5,7] target=int64[5]{0,6} weight=[7]{0.1,2} reduction=none")
        .Sample("X=[3,4,2,3] target=int64[3,2,3]{0,3} reduction=none")
        .Sample("X=[3,4,5] target=int64[3,5]{0,3} weight=[4]{0.1,2} ignore_index=2")
        .Sample("X=[9,4] target=int64[9]{-1,3} ignore_index=-1 reduction=none")
        .Sample("X=[9,4] target=int64[9]{-1,3} ignore_index=-1")
        .Sample("X=[0,4] target=int64[0]{0,3} reduction=sum")
        .Sample("X=[0,4] target=int64[0]{0,3} reduction=none")
        .Sample("X=[1,1] target=int64[1]{0,0}")
        .Register();

const bool kNllLossGrad =
    WithAttrs(Op("nll_loss_grad"))
        .Doc("Gradient of nll_loss: -weight * dloss at the targets, divided as the loss was.")
        .In("X", "input of the forward op", kFloats)
        .In("target", "input of the forward op", DTypeSet(DType::kInt64))
        .In("weight", "input of the forward op", kFloats)
        .Optional()
        .In("loss", "output of the forward op", kFloats)
        .In("dloss", "gradient of loss", kFloats)
        .Out("dX", "gradient of X", kFloats)
        .Optional()
        .Out("dweight", "gradient of weight", kFloats)
        .Optional()
        .Shape([](ShapeContext& ctx) {
          ctx.set_out(0, ctx.in(0));
          ctx.set_out(1, ctx.in(2));
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
            return WithState(RunGrad<decltype(t)>, MakeState(ctx));
          });
        })
        .Grad([](GradContext& g) {
          OPSTEP_CHECK(!OutGradient(g, "dweight") && g.InGrad("weight").empty(),
                       "the weights can be differentiated once only");
          Give(g, "dloss",
               ForwardOp(g,
                         {{"X", {OutGradient(g, "dX")}},
                          {"target", {In(g, "target")}},
                          {"weight", {In(g, "weight")}}},
                         "loss"));
        })
        .Register();

}  // namespace
}  // namespace opstep
