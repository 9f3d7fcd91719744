// gemm: alpha * A @ B + beta * C for matrices, as in ONNX, and its gradient.
#include "ops/grad/formula.h"
#include "ops/lib/dispatch.h"
#include "ops/lib/loop_nest.h"
#include "ops/lib/shape_rules.h"
#include "ops/matmul/matrix_product.h"
#include "ops/op.h"

namespace opstep {
namespace {

struct State {
  Gemm product;
  // Operand C over the shape of out.
  LoopNest<1> c;
};

State Analyse(const OpView& op, const Dims& a, const Dims& b, const VarType& c) {
  State s;
  Gemm& g = s.product;
  g.trans_a = op.Bool("transA");
  g.trans_b = op.Bool("transB");
  g.m = a[g.trans_a ? 1 : 0];
  g.k = a[g.trans_a ? 0 : 1];
  g.n = b[g.trans_b ? 0 : 1];
  g.alpha = op.Float("alpha");
  g.beta = c.dtype == DType::kNone ? 0.0 : op.Float("beta");
  s.c = MakeLoopNest<1>(Dims{g.m, g.n}, {c.dims});
  return s;
}

template <typename T>
void Run(KernelContext& ctx) {
  const State& s = ctx.state<State>();
  T* out = ctx.out(0).as<T>();
  if (s.product.beta != 0.0) {
    const T* c = ctx.in(2).as<T>();
    const int64_t n = s.c.inner_size();
    T* to = out;
    ForEachRun(s.c, [&](const std::array<int64_t, 1>& at) {
      if (s.c.along(0)) {
        std::copy_n(c + at[0], n, to);
      } else {
        std::fill_n(to, n, c[at[0]]);
      }
      to += n;
    });
  }
  s.product.Run(ctx.in(0).as<T>(), ctx.in(1).as<T>(), out);
}

template <typename T>
void RunGrad(KernelContext& ctx) {
  const State& s = ctx.state<State>();
  const auto [trans_a, trans_b, m, n, k, alpha, beta] = s.product;
  const T* a = ctx.in(0).as<T>();
  const T* b = ctx.in(1).as<T>();
  const T* d = ctx.in(3).as<T>();
  if (Tensor& grad = ctx.out(0)) {
    if (trans_a) {
      Gemm{trans_b, true, k, m, n, alpha}.Run(b, d, grad.as<T>());
    } else {
      Gemm{false, !trans_b, m, k, n, alpha}.Run(d, b, grad.as<T>());
    }
  }
  if (Tensor& grad = ctx.out(1)) {
    if (trans_b) {
      Gemm{true, trans_a, n, k, m, alpha}.Run(d, a, grad.as<T>());
    } else {
      Gemm{!trans_a, false, k, n, m, alpha}.Run(a, d, grad.as<T>());
    }
  }
  if (Tensor& grad = ctx.out(2)) {
    T* dc = grad.as<T>();
    std::fill_n(dc, grad.numel, T(0));
    const int64_t run = s.c.inner_size();
    ForEachRun(s.c, [&](const std::array<int64_t, 1>& at) {
      T* to = dc + at[0];
      if (s.c.along(0)) {
        for (int64_t i = 0; i < run; ++i) to[i] += d[i];
      } else {
        *to += SumRun<T>(run, [&](int64_t i) { return d[i]; });
      }
      d += run;
    });
    for (int64_t i = 0; i < grad.numel; ++i) dc[i] *= static_cast<T>(beta);
  }
}

void Shape(ShapeContext& ctx) {
  const VarType& c = ctx.in(2);
  CheckSameDType(ctx.in(0), "A", ctx.in(1), "B");
  const auto matrix = [&](int i, const char* name, const char* attr) {
    const Dims& dims = ctx.in(i).dims;
    OPSTEP_CHECK(dims.rank() == 2, name, " is ", dims.ToString(), ": it must be a matrix");
    return ctx.op().Bool(attr) ? Dims{dims[1], dims[0]} : dims;
  };
  const Dims a = matrix(0, "A", "transA"), b = matrix(1, "B", "transB");
  OPSTEP_CHECK(SizesAgree(a[1], b[0]), "A is ", a.ToString(), " but B is ", b.ToString(),
               " (transposed as given): inner sizes ", a[1], " and ", b[0], " differ");
  Dims out{a[0], b[1]};
  if (c.dtype != DType::kNone) {
    CheckSameDType(ctx.in(0), "A", c, "C");
    bool fits = c.dims.rank() <= 2;
    for (int i = 1; fits && i <= c.dims.rank(); ++i) {
      const int64_t size = c.dims[c.dims.rank() - i];
      fits = size == 1 || SizesAgree(size, out[2 - i]);
    }
    OPSTEP_CHECK(fits, "C is ", c.dims.ToString(), " but the product is ", out.ToString(),
                 ": C must broadcast to it");
  }
  ctx.set_out(0, {ctx.in(0).dtype, out});
}

// Shared by the forward and the gradient op.
Op GemmOp(std::string type, std::string doc) {
  Op op(std::move(type));
  op.Doc(std::move(doc))
      .Attr(FloatAttr("alpha", 1.0), "factor of the product")
      .Attr(FloatAttr("beta", 1.0), "factor of C; with 0 C is not read")
      .Attr(BoolAttr("transA", false), "A is given transposed, [K, M]")
      .Attr(BoolAttr("transB", false), "B is given transposed, [N, K]")
      .In("A", "[M, K]", kFloats)
      .In("B", "[K, N]", kFloats)
      .In("C", "broadcasts to [M, N]", kFloats)
      .Optional();
  return op;
}

const bool kGemm = GemmOp("gemm", "alpha * A @ B + beta * C for matrices A and B; C is broadcast.")
                       .Out("out", "[M, N]", kFloats)
                       .Shape(Shape)
                       .Prepare([](const PrepareContext& ctx) -> Kernel {
                         return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
                           return WithState(Run<decltype(t)>, Analyse(ctx.op(), ctx.in(0).dims,
                                                                      ctx.in(1).dims, ctx.in(2)));
                         });
                       })
                       .Grad([](GradContext& g) {
                         g.EmitGrad("gemm_grad", {"A", "B", "C"}, {}, {"out"}, {"A", "B", "C"});
                       })
                       .Oracle(R"(
product = alpha * np.matmul(A.T if transA else A, B.T if transB else B)
(product if 'C' not in globals() else product + beta * C).astype(A.dtype)
)")
                       .Sample("A=[3,5] B=[5,7]")
                       .Sample("A=[3,5] B=[5,7] C=[7] alpha=0.5 beta=2")
                       .Sample("A=[5,3] B=[5,7] C=[3,1] transA=True alpha=-2")
                       .Sample("A=[3,5] B=[7,5] C=[3,7] transB=True beta=-0.25")
                       .Sample("A=[5,3] B=[7,5] C=[] transA=True transB=True beta=3")
                       .Sample("A=[5,3] B=[7,5] transA=True transB=True alpha=3")
                       .Sample("A=[1,33] B=[33,1] C=[1]")
                       .Sample("A=[3,0] B=[0,2] C=[1,2] beta=2")
                       .Sample("A=[0,3] B=[3,2] C=[2]")
                       .Sample("A=[2,3] B=[3,4] C=[4] beta=0")
                       .Register();

const bool kGemmGrad =
    GemmOp("gemm_grad",
           "Gradient of gemm: alpha * dout @ B^T, alpha * A^T @ dout (transposed as A and B are) "
           "and beta * dout, summed where C was broadcast.")
        .ShapeOnly()
        .In("dout", "gradient of out", kFloats)
        .Out("dA", "gradient of A", kFloats)
        .Optional()
        .Out("dB", "gradient of B", kFloats)
        .Optional()
        .Out("dC", "gradient of C", kFloats)
        .Optional()
        .Shape(GradsLikeInputs)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
            return WithState(RunGrad<decltype(t)>,
                             Analyse(ctx.op(), ctx.in(0).dims, ctx.in(1).dims, ctx.in(2)));
          });
        })
        .Grad([](GradContext& g) {
          const Term a = In(g, "A"), b = In(g, "B"), dout = In(g, "dout");
          const bool trans_a = g.op().Bool("transA"), trans_b = g.op().Bool("transB");
          const auto product = [&](const Term& x, bool trans_x, const Term& y, bool trans_y) {
            return ForwardOp(g, {{"A", {x}}, {"B", {y}}}, "out",
                             {BoolAttr("transA", trans_x), BoolAttr("transB", trans_y)});
          };
          const Term da =
              trans_a ? product(b, trans_b, dout, true) : product(dout, false, b, !trans_b);
          const Term db =
              trans_b ? product(dout, true, a, trans_a) : product(a, !trans_a, dout, false);
          const Term c = In(g, "C");
          const Term dc = c ? SummedTo(Scaled(dout, g.op().Float("beta")), c) : Term();
          FormulaGradient(g, {{"dA", da}, {"dB", db}, {"dC", dc}}, {"A", "B", "dout"});
        })
        .Register();

}  // namespace
}  // namespace opstep
