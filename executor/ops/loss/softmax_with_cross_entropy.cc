// The cross entropy between softmax(logits) and class labels, row by row, and its gradient.
#include "ops/grad/terms.h"
#include "ops/lib/dispatch.h"
#include "ops/lib/shape_rules.h"
#include "ops/lib/softmax_rows.h"
#include "ops/op.h"

namespace opstep {
namespace {

[[noreturn]] void FailLabel(int64_t row, int64_t label, int64_t classes) {
  Fail("label[", row, "] is ", label, " but there are ", classes, " classes: labels run from 0 to ",
       classes - 1);
}

template <typename T>
struct Body {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const Tensor& logits = ctx.in(0);
    const T* x = logits.as<T>();
    const int64_t* label = ctx.in(1).as<int64_t>();
    T* loss = ctx.out(0).as<T>();
    T* probs = ctx.out(1).as<T>();
    const int64_t rows = logits.dims[0], classes = logits.dims[1];
    for (int64_t row = 0; row < rows; ++row) {
      if (label[row] < 0 || label[row] >= classes) FailLabel(row, label[row], classes);
      const auto [largest, sum] = SoftmaxRow(x, probs, classes, 1);
      loss[row] = Log(sum) - (x[label[row]] - largest);
      x += classes;
      probs += classes;
    }
  }
};

template <typename T>
struct GradBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const Tensor& probs = ctx.in(0);
    const int64_t* label = ctx.in(1).as<int64_t>();
    const T* dloss = ctx.in(2).as<T>();
    const T* s = probs.as<T>();
    T* dx = ctx.out(0).as<T>();
    const int64_t rows = probs.dims[0], classes = probs.dims[1];
    for (int64_t row = 0; row < rows; ++row) {
      const T d = dloss[row];
      const T at_label = (s[label[row]] - T(1)) * d;
#pragma GCC ivdep
      for (int64_t i = 0; i < classes; ++i) dx[i] = s[i] * d;
      dx[label[row]] = at_label;
      s += classes;
      dx += classes;
    }
  }
};

void Shape(ShapeContext& ctx) {
  const Dims& logits = ctx.in(0).dims;
  const Dims& label = ctx.in(1).dims;
  OPSTEP_CHECK(logits.rank() == 2, "logits is ", logits.ToString(), ": it must be [N, classes]");
  OPSTEP_CHECK((label.rank() == 1 || (label.rank() == 2 && SizesAgree(label[1], 1))) &&
                   SizesAgree(label[0], logits[0]),
               "label is ", label.ToString(), " but logits is ", logits.ToString(),
               ": label must be [N] or [N, 1]");
  const int64_t rows = logits[0] < 0 ? label[0] : logits[0];
  ctx.set_out(0, {ctx.in(0).dtype, label.rank() == 1 ? Dims{rows} : Dims{rows, 1}});
  ctx.set_out(1, {ctx.in(0).dtype, Dims{rows, logits[1]}});
}

const bool kOp =
    Op("softmax_with_cross_entropy")
        .Doc(
            "The cross entropy between softmax(logits) and the class that label names, row by row.")
        .In("logits", "[N, classes]", kFloats)
        .In("label", "[N] or [N, 1]: the right class of each row", DTypeSet(DType::kInt64))
        .Out("loss", "-log(probs[label]), shaped as label", kFloats)
        .Out("probs", "softmax of each row of logits", kFloats)
        .Shape(Shape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchFloats(ctx.in(0).dtype, [](auto t) {
            return Kernel{Best<Body<decltype(t)>>(), nullptr};
          });
        })
        .Grad([](GradContext& g) {
          const Term probs(g.op().Outputs("probs")[0]), dloss = OutGradient(g, "loss");
          const Term of_loss("softmax_with_cross_entropy_grad",
                             {{"probs", {probs}}, {"label", {In(g, "label")}}, {"dloss", {dloss}}},
                             "dlogits");
          Give(g, "logits",
               (dloss ? of_loss : Term()) + SoftmaxGradient(probs, OutGradient(g, "probs")));
        })
        .Oracle(R"(
e = np.exp(logits - logits.max(axis=1, keepdims=True, initial=-np.inf))
softmax = e / e.sum(axis=1, keepdims=True)
rows = np.arange(len(logits))
loss = -np.log(softmax[rows, label.reshape(-1)])
(loss.reshape(label.shape), softmax)
)")
        .Sample("logits=[5,7]{-3,3} label=[5,1]{0,6}")
        .Sample("logits=[33,17]{-3,3} label=[33]{0,16}")
        .Sample("logits=[1,1] label=[1]{0,0}")
        .Sample("logits=[0,4] label=[0,1]{0,3}")
        .Sample("logits=[4,3]{-40,40} label=[4,1]{0,2}")
        .Register();

const bool kGrad =
    Op("softmax_with_cross_entropy_grad")
        .Doc("Gradient of softmax_with_cross_entropy: (probs - one_hot(label)) * dloss.")
        .In("probs", "as computed by the forward op", kFloats)
        .In("label", "the right class of each row", DTypeSet(DType::kInt64))
        .In("dloss", "gradient of loss", kFloats)
        .Out("dlogits", "gradient of logits", kFloats)
        .InplaceOf("probs")
        .Shape(OutLikeInput<0>)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchFloats(ctx.in(0).dtype, [](auto t) {
            return Kernel{Best<GradBody<decltype(t)>>(), nullptr};
          });
        })
        .Grad([](GradContext& g) {
          const Term probs = In(g, "probs"), dloss = In(g, "dloss");
          const Term given = OutGradient(g, "dlogits");
          const Term slope = Again(
              g, {{"probs", {probs}}, {"label", {In(g, "label")}}, {"dloss", {Filled(dloss, 1)}}},
              "dlogits");
          Give(g, "dloss", ShapedAs(SumsAlong(given * slope, {1}), dloss));
          Give(g, "probs", given * ShapedAs(dloss, SumsAlong(probs, {1})));
        })
        .Register();

}  // namespace
}  // namespace opstep
