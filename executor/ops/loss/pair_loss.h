// Losses of two tensors of one shape, element by element, with their gradients.
// L<T> is made from the op's attributes when the kernel is chosen, and is its state: l(x, y) is
// the loss, l.X(x, y) and l.Y(x, y) its slopes.
#pragma once

#include "ops/lib/dispatch.h"
#include "ops/lib/numeric.h"
#include "ops/lib/shape_rules.h"
#include "ops/op.h"

namespace opstep {

template <template <typename> typename L, typename T>
struct PairLossBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const L<T> l = ctx.state<L<T>>();
    const T* x = ctx.in(0).as<T>();
    const T* y = ctx.in(1).as<T>();
    T* loss = ctx.out(0).as<T>();
    const int64_t n = ctx.out(0).numel;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) loss[i] = l(x[i], y[i]);
  }
};

template <template <typename> typename L, typename T>
struct PairLossGradBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const L<T> l = ctx.state<L<T>>();
    const T* x = ctx.in(0).as<T>();
    const T* y = ctx.in(1).as<T>();
    const T* d = ctx.in(2).as<T>();
    const int64_t n = ctx.in(0).numel;
    // dX last: it may lie in the memory of dloss.
    if (ctx.out(1)) {
      T* dy = ctx.out(1).as<T>();
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) dy[i] = d[i] * l.Y(x[i], y[i]);
    }
    if (ctx.out(0)) {
      T* dx = ctx.out(0).as<T>();
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) dx[i] = d[i] * l.X(x[i], y[i]);
    }
  }
};

template <template <typename> typename L,
          template <template <typename> typename, typename> typename B>
Kernel PreparePairLoss(const PrepareContext& ctx) {
  return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
    using T = decltype(t);
    return WithState(Best<B<L, T>>(), L<T>(ctx.op()));
  });
}

// The second input is called "label" in all of them.
inline void PairLossShape(ShapeContext& ctx) {
  CheckSameDType(ctx.in(0), "X", ctx.in(1), "label");
  Dims out = ctx.in(0).dims;
  OPSTEP_CHECK(ShapesAgree(out, ctx.in(1).dims), "X is ", out.ToString(), " but label is ",
               ctx.in(1).dims.ToString(), ": their shapes must be equal");
  for (int i = 0; i < out.rank(); ++i) {
    if (out[i] < 0) out[i] = ctx.in(1).dims[i];
  }
  ctx.set_out(0, {ctx.in(0).dtype, out});
}

// Both ops of a loss; the loss adds its attributes, oracle and samples.
template <template <typename> typename L>
Op PairLossOp(std::string type, std::string doc, std::string x_doc, std::string label_doc) {
  Op op(std::move(type));
  op.Doc(std::move(doc))
      .In("X", std::move(x_doc), kFloats)
      .In("label", std::move(label_doc), kFloats)
      .Out("loss", "as X", kFloats)
      .InplaceOf("X")
      .Shape(PairLossShape)
      .Prepare(PreparePairLoss<L, PairLossBody>)
      .Grad([](GradContext& g) {
        g.EmitGrad(g.op().type() + "_grad", {"X", "label"}, {}, {"loss"}, {"X", "label"});
      });
  return op;
}

template <template <typename> typename L>
Op PairLossGradOp(std::string type, std::string doc) {
  Op op(std::move(type));
  op.Doc(std::move(doc))
      .In("X", "input of the forward op", kFloats)
      .In("label", "input of the forward op", kFloats)
      .In("dloss", "gradient of loss", kFloats)
      .Out("dX", "gradient of X", kFloats)
      .Optional()
      .InplaceOf("dloss")
      .Out("dlabel", "gradient of label", kFloats)
      .Optional()
      .Shape(GradsLikeInputs)
      .Prepare(PreparePairLoss<L, PairLossGradBody>);
  return op;
}

}  // namespace opstep
