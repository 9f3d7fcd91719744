// conv: convolution over 1 to 3 spatial dimensions, and its gradient.
#include "ops/grad/terms.h"
#include "ops/lib/dispatch.h"
#include "ops/lib/shape_rules.h"
#include "ops/nn/conv_products.h"
#include "ops/op.h"

namespace opstep {
namespace {

ConvShape Analyse(const OpView& op, const Dims& x, const Dims& w) {
  const int rank = x.rank() - 2;
  const std::vector<int64_t> kernel(w.begin() + 2, w.end());
  return {.batch = x[0],
          .in_channels = x[1],
          .out_channels = w[0],
          .groups = op.Int("group"),
          .window = MakeWindow(op, x, kernel),
          .rank = rank};
}

void Shape(ShapeContext& ctx) {
  CheckSameDType(ctx.in(0), "X", ctx.in(1), "W");
  const Dims& x = ctx.in(0).dims;
  const Dims& w = ctx.in(1).dims;
  CheckSpatial(x);
  OPSTEP_CHECK(w.rank() == x.rank(), "X is ", x.ToString(), " but W is ", w.ToString(),
               ": they must have the same number of dimensions");
  const int64_t group = ctx.op().Int("group");
  OPSTEP_CHECK(group >= 1, "group is ", group, ": it must be 1 or more");
  OPSTEP_CHECK(x[1] < 0 || w[1] < 0 || x[1] == w[1] * group, "X has ", x[1], " channels but W is ",
               w.ToString(), ", which with ", group, group == 1 ? " group" : " groups", " takes ",
               w[1] * group);
  OPSTEP_CHECK(w[0] < 0 || w[0] % group == 0, "W gives ", w[0], " channels, which ", group,
               " groups do not divide");
  for (int i = 2; i < w.rank(); ++i) {
    OPSTEP_CHECK(w[i] != 0, "W is ", w.ToString(), ": the kernel must not be empty");
  }
  if (const VarType& b = ctx.in(2); b.dtype != DType::kNone) {
    CheckSameDType(ctx.in(0), "X", b, "B");
    OPSTEP_CHECK(b.dims.rank() == 1 && SizesAgree(b.dims[0], w[0]), "W gives ", w[0],
                 " channels but B is ", b.dims.ToString(), ": it must have one value for each");
  }
  ctx.set_out(0, {ctx.in(0).dtype, OutDims(Analyse(ctx.op(), x, w).window, x, w[0])});
}

template <typename T>
void Run(KernelContext& ctx) {
  ctx.state<ConvProducts<T>>().Forward(ctx.in(0).as<T>(), ctx.in(1).as<T>(), ctx.in(2).as<T>(),
                                       ctx.out(0).as<T>());
}

template <typename T>
void RunGrad(KernelContext& ctx) {
  const auto& products = ctx.state<ConvProducts<T>>();
  const T* dout = ctx.in(2).as<T>();
  if (Tensor& dx = ctx.out(0)) products.BackData(dout, ctx.in(1).as<T>(), dx.as<T>());
  if (Tensor& dw = ctx.out(1)) products.BackWeights(ctx.in(0).as<T>(), dout, dw.as<T>());
  if (Tensor& db = ctx.out(2)) {
    const ConvShape& s = products.shape;
    products.BackBias(dout, s.batch, s.out_channels, s.window.out_size(), db.as<T>());
  }
}

Op WithAttrs(std::string type) {
  Op op(std::move(type));
  WindowAttrs(op).Attr(IntAttr("group", 1),
                       "the number of independent groups that the channels are split into");
  return op;
}

const bool kConv =
    WithAttrs("conv")
        .Doc("Convolution over 1 to 3 spatial dimensions (a cross-correlation: W is not flipped).")
        .In("X", "[N, C, ...]", kFloats)
        .In("W", "[M, C / group, ...]: its last sizes are the kernel's", kFloats)
        .In("B", "[M], added to each output channel", kFloats)
        .Optional()
        .Out("out", "[N, M, ...]", kFloats)
        .Shape(Shape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const ConvShape shape = Analyse(ctx.op(), ctx.in(0).dims, ctx.in(1).dims);
          return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
            using T = decltype(t);
            ConvProducts<T> products(shape);
            if (std::is_same_v<T, float>) {
              const bool bias = ctx.in(2).dtype != DType::kNone;
              products.forward = ConvForward::Make(shape, bias, ctx.value(1));
            }
            return WithState(Run<T>, std::move(products));
          });
        })
        .Grad([](GradContext& g) {
          g.EmitGrad("conv_grad", {"X", "W"}, {}, {"out"}, {"X", "W", "B"});
        })
        .Oracle(std::string("k, ceil = W.shape[2:], False\n") + std::string(kWindowOracle) + R"(
n, m, cg = len(X), len(W), W.shape[1]
result = np.zeros((n, group, m // group, *out), X.dtype)
for t in np.ndindex(*k):
    seen = at(X, t, 0).reshape(n, group, cg, *out)
    taps = W[(slice(None), slice(None), *t)].reshape(group, m // group, cg)
    result += np.einsum('ngc...,gmc->ngm...', seen, taps).astype(X.dtype)
result = result.reshape(n, m, *out)
result if 'B' not in globals() else result + B.reshape(-1, *[1] * r)
)")
        .Sample("X=[2,3,5,6] W=[4,3,3,2]")
        .Sample("X=[2,3,5,6] W=[4,3,3,2] B=[4]")
        .Sample("X=[1,2,7] W=[3,2,3] B=[3] pads=[1,2] strides=[2]")
        .Sample("X=[1,2,4,3,5] W=[2,2,2,2,3] pads=[1,0,1,0,1,1] strides=[1,2,2]")
        .Sample("X=[2,4,5,5] W=[6,2,3,3] B=[6] group=2 pads=[1,1,1,1]")
        .Sample("X=[1,3,6,5] W=[3,1,3,3] group=3 pads=[1,1,1,1] strides=[2,1]")
        .Sample("X=[1,2,9,8] W=[2,2,3,2] dilations=[2,3] pads=[1,0,2,1]")
        .Sample("X=[1,1,5,6] W=[2,1,2,3] auto_pad=SAME_UPPER strides=[2,2]")
        .Sample("X=[1,1,5,6] W=[2,1,2,3] auto_pad=SAME_LOWER strides=[2,2]")
        .Sample("X=[1,1,5,6] W=[2,1,2,3] auto_pad=VALID")
        .Sample("X=[1,2,3,3] W=[1,2,1,1] strides=[2,2]")
        .Sample("X=[1,1,2,2] W=[1,1,4,4] pads=[3,3,3,3]")
        .Sample("X=[0,3,5,5] W=[4,3,3,3] B=[4]")
        .Sample("X=[2,0,4,4] W=[3,0,3,3] B=[3]")
        .Sample("X=[2,3,4,4] W=[0,3,3,3]")
        .Register();

const bool kConvGrad =
    ConvGradOp(WithAttrs("conv_grad"))
        .Doc("Gradient of conv: dout spread over X by W, X correlated with dout, and dout summed.")
        .Shape([](ShapeContext& ctx) {
          ctx.set_out(0, ctx.in(0));
          ctx.set_out(1, ctx.in(1));
          ctx.set_out(2, {ctx.in(0).dtype, Dims{ctx.in(1).dims[0]}});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const ConvShape shape = Analyse(ctx.op(), ctx.in(0).dims, ctx.in(1).dims);
          const auto wanted = [&](int i) { return ctx.out(i).dtype == DType::kFloat32; };
          return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
            using T = decltype(t);
            ConvProducts<T> products(shape);
            if (wanted(0)) products.back_data = ConvBackData::Make(shape);
            if (wanted(1)) products.back_weights = ConvBackWeights::Make(shape);
            return WithState(RunGrad<T>, std::move(products));
          });
        })
        .Grad([](GradContext& g) { ProductGradient(g, "W", "B"); })
        .Register();

}  // namespace
}  // namespace opstep
