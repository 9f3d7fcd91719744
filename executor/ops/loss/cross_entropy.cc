// cross_entropy of probabilities and labels, hard or soft, and its gradient.
#include <algorithm>

#include "ops/lib/dispatch.h"
#include "ops/lib/numeric.h"
#include "ops/loss/label_rows.h"
#include "ops/op.h"

namespace opstep {
namespace {

// Labels that are classes.

template <typename T>
void Run(KernelContext& ctx) {
  const Tensor& x = ctx.in(0);
  const int64_t* label = ctx.in(1).as<int64_t>();
  T* loss = ctx.out(0).as<T>();
  const int64_t rows = x.dims[0], classes = x.dims[1];
  for (int64_t row = 0; row < rows; ++row) {
    CheckLabel("label", row, label[row], classes);
    loss[row] = -Log(x.as<T>()[row * classes + label[row]]);
  }
}

template <typename T>
void RunGrad(KernelContext& ctx) {
  const T* x = ctx.in(0).as<T>();
  const int64_t* label = ctx.in(1).as<int64_t>();
  const T* d = ctx.in(2).as<T>();
  Tensor& dx = ctx.out(0);
  const int64_t rows = dx.dims[0], classes = dx.dims[1];
  std::fill_n(dx.as<T>(), dx.numel, T(0));
  for (int64_t row = 0; row < rows; ++row) {
    CheckLabel("label", row, label[row], classes);
    const int64_t at = row * classes + label[row];
    dx.as<T>()[at] = -d[row] / x[at];
  }
}

// Labels that are distributions over the classes.

template <typename T>
struct SoftBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const Tensor& x = ctx.in(0);
    T* loss = ctx.out(0).as<T>();
    const int64_t rows = x.dims[0], classes = x.dims[1];
    for (int64_t row = 0; row < rows; ++row) {
      const T* p = x.as<T>() + row * classes;
      const T* y = ctx.in(1).as<T>() + row * classes;
      loss[row] = -SumRun<T>(classes, [&](int64_t i) OPSTEP_INLINE_LAMBDA {
        // A class with label 0 costs nothing, even when its probability is 0.
        const T term = y[i] * Log(p[i]);
        return y[i] == T(0) ? T(0) : term;
      });
    }
  }
};

template <typename T>
struct SoftGradBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const Tensor& x = ctx.in(0);
    const T* dloss = ctx.in(2).as<T>();
    const int64_t rows = x.dims[0], classes = x.dims[1];
    for (int64_t row = 0; row < rows; ++row) {
      const T* p = x.as<T>() + row * classes;
      const T* y = ctx.in(1).as<T>() + row * classes;
      const T d = -dloss[row];
      if (Tensor& dx = ctx.out(0)) {
        T* to = dx.as<T>() + row * classes;
#pragma GCC ivdep
        for (int64_t i = 0; i < classes; ++i) to[i] = y[i] == T(0) ? T(0) : d * (y[i] / p[i]);
      }
      if (Tensor& dlabel = ctx.out(1)) {
        T* to = dlabel.as<T>() + row * classes;
#pragma GCC ivdep
        for (int64_t i = 0; i < classes; ++i) to[i] = d * Log(p[i]);
      }
    }
  }
};

void Shape(ShapeContext& ctx) {
  const VarType& x = ctx.in(0);
  const VarType& label = ctx.in(1);
  if (ctx.op().Bool("soft_label")) {
    CheckSameDType(x, "X", label, "label");
    OPSTEP_CHECK(x.dims.rank() == 2 && ShapesAgree(x.dims, label.dims), "X is ", x.dims.ToString(),
                 " but label is ", label.dims.ToString(),
                 ": soft labels and X must both be [N, classes]");
    ctx.set_out(0, {x.dtype, Dims{x.dims[0] < 0 ? label.dims[0] : x.dims[0], 1}});
  } else {
    OPSTEP_CHECK(label.dtype == DType::kInt64, "label is ", NameOf(label.dtype),
                 ": classes are int64; say soft_label for labels that are distributions");
    CheckLabelShape(x.dims, "X", label.dims);
    Dims out = label.dims;
    if (out[0] < 0) out[0] = x.dims[0];
    if (out.rank() == 2) out[1] = 1;
    ctx.set_out(0, {x.dtype, out});
  }
}

const bool kCrossEntropy =
    Op("cross_entropy")
        .Doc("The cross entropy between the probabilities X and label, row by row.")
        .In("X", "[N, classes]: probabilities", kFloats)
        .In("label", "[N] or [N, 1]: classes as int64; or [N, classes]: soft labels",
            DTypeSet(DType::kInt64) | kFloats)
        .Attr(BoolAttr("soft_label", false), "label holds a distribution for each row")
        .Out("loss", "-log(X[label]), shaped as label; or -sum(label * log(X)), [N, 1]", kFloats)
        .Shape(Shape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchFloats(ctx.in(0).dtype, [&](auto t) -> Kernel {
            using T = decltype(t);
            return {ctx.op().Bool("soft_label") ? Best<SoftBody<T>>() : Run<T>, nullptr};
          });
        })
        .Grad([](GradContext& g) {
          g.EmitGrad("cross_entropy_grad", {"X", "label"}, {}, {"loss"}, {"X", "label"});
        })
        .Oracle(R"(
if soft_label:
    with_label = np.where(label == 0, X.dtype.type(1), X)
    loss = -(label * np.log(with_label)).sum(axis=1, keepdims=True)
else:
    loss = -np.log(X[np.arange(len(X)), label.reshape(-1)]).reshape(label.shape)
loss
)")
        .Sample("X=[5,7]{0.01,0.99} label=int64[5,1]{0,6}")
        .Sample("X=[33,17]{0.01,0.99} label=int64[33]{0,16}")
        .Sample("X=[1,1]{0.5,0.5} label=int64[1]{0,0}")
        .Sample("X=[0,4] label=int64[0,1]{0,3}")
        .Sample("X=float32[26,4]{special} label=int64[26]{0,3}")
        .Sample("X=[5,19]{0.01,0.99} label=[5,19]{0.01,0.99} soft_label=True")
        .Sample("X=[5,3]{0.01,0.99} label=[5,3]{0.2,0.2} soft_label=True")
        .Sample("X=[0,4] label=[0,4] soft_label=True")
        .Sample("X=float32[2,13]{special} label=float32[2,13]{0,0} soft_label=True")
        .Register();

const bool kCrossEntropyGrad =
    Op("cross_entropy_grad")
        .Doc("Gradient of cross_entropy: -dloss * label / X, and -dloss * log(X) for soft labels.")
        .In("X", "input of the forward op", kFloats)
        .In("label", "input of the forward op", DTypeSet(DType::kInt64) | kFloats)
        .In("dloss", "gradient of loss", kFloats)
        .Attr(BoolAttr("soft_label", false), "as in the forward op")
        .Out("dX", "gradient of X", kFloats)
        .Optional()
        .Out("dlabel", "gradient of label", kFloats)
        .Optional()
        .Shape(GradsLikeInputs)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchFloats(ctx.in(0).dtype, [&](auto t) -> Kernel {
            using T = decltype(t);
            return {ctx.op().Bool("soft_label") ? Best<SoftGradBody<T>>() : RunGrad<T>, nullptr};
          });
        })
        .Register();

}  // namespace
}  // namespace opstep
