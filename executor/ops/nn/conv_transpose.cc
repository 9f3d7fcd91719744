// conv_transpose: each element of X spreads W over the result; its gradient.
#include "ops/grad/terms.h"
#include "ops/lib/dispatch.h"
#include "ops/lib/shape_rules.h"
#include "ops/nn/conv_products.h"
#include "ops/op.h"

namespace opstep {
namespace {

// The convolution whose gradient this op is: it would turn `out` [N, M, ...] into X [N, C, ...].
// Sizes of X may be -1; then those of window.in are.
ConvShape Analyse(const OpView& op, const Dims& x, const Dims& w) {
  const int rank = x.rank() - 2;
  const std::string& mode = op.String("auto_pad");
  OPSTEP_CHECK(mode == "SAME_UPPER" || mode == "SAME_LOWER" || mode == "VALID" || mode == "NOTSET",
               "auto_pad is '", mode, "': it must be NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  const std::vector<int64_t> strides = SpatialAttr(op, "strides", rank, 1, 1);
  const std::vector<int64_t> dilations = SpatialAttr(op, "dilations", rank, 1, 1);
  const std::vector<int64_t> pads = SpatialAttr(op, "pads", rank, 0, 0, 2);
  const std::vector<int64_t> more = SpatialAttr(op, "output_padding", rank, 0, 0);
  const std::vector<int64_t> sizes = SpatialAttr(op, "output_shape", rank, 0, -1);
  const int64_t group = op.Int("group");
  ConvShape s{.batch = x[0],
              .in_channels = w[1] < 0 ? -1 : w[1] * group,
              .out_channels = x[1],
              .groups = group,
              .window = {},
              .rank = rank};
  for (int i = 0; i < rank; ++i) {
    const int at = Window::kRank - rank + i;
    Window& window = s.window;
    window.out[at] = x[2 + i];
    window.kernel[at] = w[2 + i];
    window.stride[at] = strides[i];
    window.dilation[at] = dilations[i];
    window.in[at] = sizes[i];
    if (x[2 + i] < 0 || w[2 + i] < 0) continue;
    OPSTEP_CHECK(more[i] < std::max(strides[i], dilations[i]), "output_padding holds ", more[i],
                 ": it must be smaller than the stride or the dilation, which are ", strides[i],
                 " and ", dilations[i]);
    const int64_t whole = strides[i] * (x[2 + i] - 1) + window.reach(at) + more[i];
    const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
    if (same || sizes[i] >= 0) {
      if (sizes[i] < 0) window.in[at] = strides[i] * x[2 + i];
      const int64_t both = std::max<int64_t>(0, whole - window.in[at]);
      window.begin[at] = mode == "SAME_UPPER" ? both / 2 : both - both / 2;
    } else {
      const bool padded = mode == "NOTSET";
      window.begin[at] = padded ? pads[i] : 0;
      window.in[at] = x[2 + i] == 0 ? 0 : whole - (padded ? pads[i] + pads[rank + i] : 0);
      OPSTEP_CHECK(window.in[at] >= 0, "X is ", x.ToString(), " and W is ", w.ToString(), ": with ",
                   pads[i] + pads[rank + i], " of padding nothing is left");
    }
  }
  return s;
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
  OPSTEP_CHECK(SizesAgree(x[1], w[0]), "X has ", x[1], " channels but W is ", w.ToString(),
               ": its first size must be the same");
  OPSTEP_CHECK(x[1] < 0 || x[1] % group == 0, "X has ", x[1], " channels, which ", group,
               " groups do not divide");
  for (int i = 2; i < w.rank(); ++i) {
    OPSTEP_CHECK(w[i] != 0, "W is ", w.ToString(), ": the kernel must not be empty");
  }
  const ConvShape shape = Analyse(ctx.op(), x, w);
  if (const VarType& b = ctx.in(2); b.dtype != DType::kNone) {
    CheckSameDType(ctx.in(0), "X", b, "B");
    OPSTEP_CHECK(b.dims.rank() == 1 && SizesAgree(b.dims[0], shape.in_channels), "W gives ",
                 shape.in_channels, " channels but B is ", b.dims.ToString(),
                 ": it must have one value for each");
  }
  Dims out{x[0], shape.in_channels};
  for (int i = 0; i < shape.rank; ++i) {
    out.push_back(shape.window.in[Window::kRank - shape.rank + i]);
  }
  ctx.set_out(0, {ctx.in(0).dtype, out});
}

template <typename T>
void Run(KernelContext& ctx) {
  const auto& products = ctx.state<ConvProducts<T>>();
  const ConvShape& s = products.shape;
  T* out = ctx.out(0).as<T>();
  products.BackData(ctx.in(0).as<T>(), ctx.in(1).as<T>(), out);
  const T* b = ctx.in(2).as<T>();
  if (b == nullptr) return;
  const int64_t size = s.window.in_size();
  for (int64_t plane = 0; plane < s.batch * s.in_channels; ++plane) {
    const T value = b[plane % s.in_channels];
    for (int64_t i = 0; i < size; ++i) out[plane * size + i] += value;
  }
}

template <typename T>
void RunGrad(KernelContext& ctx) {
  const auto& products = ctx.state<ConvProducts<T>>();
  const T* dout = ctx.in(2).as<T>();
  if (Tensor& dx = ctx.out(0)) products.Forward(dout, ctx.in(1).as<T>(), nullptr, dx.as<T>());
  if (Tensor& dw = ctx.out(1)) products.BackWeights(dout, ctx.in(0).as<T>(), dw.as<T>());
  if (Tensor& db = ctx.out(2)) {
    const ConvShape& s = products.shape;
    products.BackBias(dout, s.batch, s.in_channels, s.window.in_size(), db.as<T>());
  }
}

Op WithAttrs(std::string type) {
  Op op(std::move(type));
  WindowAttrs(op)
      .Attr(IntAttr("group", 1),
            "the number of independent groups that the channels are split into")
      .Attr(IntsAttr("output_padding", {}), "extra size at the end of each dimension")
      .Attr(IntsAttr("output_shape", {}),
            "sizes of the result; the padding is chosen to give them; none means from "
            "`pads`");
  return op;
}

const bool kConvTranspose =
    WithAttrs("conv_transpose")
        .Doc("Transposed convolution: each element of X spreads W over the result.")
        .In("X", "[N, C, ...] with 1 to 3 spatial dimensions", kFloats)
        .In("W", "[C, M / group, ...]: its last sizes are the kernel's", kFloats)
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
              products.back_data = ConvBackData::Make(shape, ctx.value(1));
            }
            return WithState(Run<T>, std::move(products));
          });
        })
        .Grad([](GradContext& g) {
          g.EmitGrad("conv_transpose_grad", {"X", "W"}, {}, {"out"}, {"X", "W", "B"});
        })
        .Oracle(R"(
n, c, *size = X.shape
k = W.shape[2:]
r = len(k)
mg = W.shape[1]
s, d = strides or [1] * r, dilations or [1] * r
more = output_padding or [0] * r
whole = [s[i] * (size[i] - 1) + (k[i] - 1) * d[i] + 1 + more[i] for i in range(r)]
begin = (pads or [0] * 2 * r)[:r]
end = (pads or [0] * 2 * r)[r:]
if auto_pad == 'VALID':
    begin, end = [0] * r, [0] * r
out = output_shape or [whole[i] - begin[i] - end[i] for i in range(r)]
if output_shape or auto_pad.startswith('SAME'):
    out = output_shape or [size[i] * s[i] for i in range(r)]
    both = [max(0, whole[i] - out[i]) for i in range(r)]
    begin = [b // 2 if auto_pad == 'SAME_UPPER' else b - b // 2 for b in both]
room = [max(whole[i], begin[i] + out[i]) for i in range(r)]
full = np.zeros((n, group, mg, *room), X.dtype)
for t in np.ndindex(*k):
    taps = W[(slice(None), slice(None), *t)].reshape(group, c // group, mg)
    cut = [slice(t[i] * d[i], t[i] * d[i] + (size[i] - 1) * s[i] + 1, s[i]) for i in range(r)]
    seen = X.reshape(n, group, c // group, *size)
    full[(..., *cut)] += np.einsum('ngc...,gcm->ngm...', seen, taps).astype(X.dtype)
full = full.reshape(n, group * mg, *room)
full = full[(..., *[slice(begin[i], begin[i] + out[i]) for i in range(r)])]
full if 'B' not in globals() else full + B.reshape(-1, *[1] * r)
)")
        .Sample("X=[2,3,4,5] W=[3,4,3,2]")
        .Sample("X=[2,3,4,5] W=[3,4,3,2] B=[4] strides=[2,3]")
        .Sample("X=[1,2,5] W=[2,3,4] B=[3] pads=[1,2] strides=[2]")
        .Sample("X=[1,2,3,2,3] W=[2,2,2,2,3] pads=[1,0,1,0,1,1] strides=[1,2,2]")
        .Sample("X=[2,4,3,3] W=[4,3,3,3] B=[6] group=2 pads=[1,1,1,1]")
        .Sample("X=[1,3,3,2] W=[3,1,3,3] group=3 strides=[2,2] output_padding=[1,1]")
        .Sample("X=[1,2,4,3] W=[2,2,3,2] dilations=[2,3] pads=[1,0,2,1]")
        .Sample("X=[1,1,3] W=[1,1,2] dilations=[3] strides=[2] output_padding=[2]")
        .Sample("X=[1,1,3,4] W=[1,2,3,3] auto_pad=SAME_UPPER strides=[2,2]")
        .Sample("X=[1,1,3,4] W=[1,2,3,4] auto_pad=SAME_LOWER strides=[2,3]")
        .Sample("X=[1,1,3,4] W=[1,2,1,1] auto_pad=SAME_LOWER strides=[2,3]")
        .Sample("X=[1,1,3,4] W=[1,2,2,3] auto_pad=VALID strides=[2,1]")
        .Sample("X=[1,1,3,3] W=[1,2,3,3] strides=[3,2] output_shape=[8,6]")
        .Sample("X=[1,1,3,3] W=[1,2,3,3] strides=[3,2] output_shape=[10,8]")
        .Sample("X=[0,3,4,4] W=[3,2,3,3] B=[2]")
        .Register();

const bool kConvTransposeGrad =
    ConvGradOp(WithAttrs("conv_transpose_grad"))
        .Doc(
            "Gradient of conv_transpose: the convolution of dout with W, dout correlated with X, "
            "and dout summed.")
        .Shape([](ShapeContext& ctx) {
          ctx.set_out(0, ctx.in(0));
          ctx.set_out(1, ctx.in(1));
          ctx.set_out(2, {ctx.in(0).dtype, Dims{ctx.in(2).dims[1]}});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const ConvShape shape = Analyse(ctx.op(), ctx.in(0).dims, ctx.in(1).dims);
          const auto wanted = [&](int i) { return ctx.out(i).dtype == DType::kFloat32; };
          return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
            using T = decltype(t);
            ConvProducts<T> products(shape);
            if (wanted(0)) products.forward = ConvForward::Make(shape, false);
            if (wanted(1)) products.back_weights = ConvBackWeights::Make(shape);
            return WithState(RunGrad<T>, std::move(products));
          });
        })
        .Grad([](GradContext& g) { ProductGradient(g, "W", "B"); })
        .Register();

}  // namespace
}  // namespace opstep
