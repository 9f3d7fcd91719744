// matmul: the matrix product of the last two dimensions with broadcast batches, and its gradient.
#include "ops/grad/terms.h"
#include "ops/lib/dispatch.h"
#include "ops/lib/loop_nest.h"
#include "ops/lib/shape_rules.h"
#include "ops/matmul/matrix_product.h"
#include "ops/op.h"

namespace opstep {
namespace {

// X [batch, m, k], Y [batch, k, n], out [batch, m, n]; batches of X and Y are broadcast.
struct Shapes {
  int64_t m = 1, n = 1, k = 1;
  LoopNest<2> batch;
  // The gradient of a side with a broadcast batch is summed up.
  bool sums_x = false;
  bool sums_y = false;
};

Dims BatchOf(const Dims& dims) {
  Dims batch;
  for (int i = 0; i + 2 < dims.rank(); ++i) batch.push_back(dims[i]);
  return batch;
}

Shapes Analyse(const Dims& x, const Dims& y) {
  Shapes s;
  s.k = x[x.rank() - 1];
  if (x.rank() > 1) s.m = x[x.rank() - 2];
  if (y.rank() > 1) s.n = y[y.rank() - 1];
  Dims x_batch = BatchOf(x);
  const Dims y_batch = BatchOf(y);
  // All rows of X are multiplied by the same Y: one large product instead of many small ones.
  if (y_batch.numel() == 1 && y_batch.rank() <= x_batch.rank()) {
    s.m *= x_batch.numel();
    x_batch = Dims();
  }
  const Dims batch = x_batch.rank() == 0 && y_batch.numel() == 1
                         ? Dims()
                         : BroadcastDims(x_batch, "X", y_batch, "Y");
  s.batch = MakeLoopNest<2>(batch, {x_batch, y_batch});
  s.sums_x = x_batch.numel() != batch.numel();
  s.sums_y = y_batch.numel() != batch.numel();
  return s;
}

// Calls f(x matrix, y matrix, out matrix), numbers from 0, for each product.
template <typename F>
void ForEachProduct(const LoopNest<2>& batch, F&& f) {
  int64_t out = 0;
  const auto& inner = batch.stride[batch.rank - 1];
  ForEachRun(batch, [&](const std::array<int64_t, 2>& at) {
    for (int64_t i = 0; i < batch.inner_size(); ++i) {
      f(at[0] + i * inner[0], at[1] + i * inner[1], out++);
    }
  });
}

template <typename T>
void Run(KernelContext& ctx) {
  const Shapes& s = ctx.state<Shapes>();
  const T* x = ctx.in(0).as<T>();
  const T* y = ctx.in(1).as<T>();
  T* out = ctx.out(0).as<T>();
  const Gemm gemm{false, false, s.m, s.n, s.k};
  ForEachProduct(s.batch, [&](int64_t i, int64_t j, int64_t o) {
    gemm.Run(x + i * s.m * s.k, y + j * s.k * s.n, out + o * s.m * s.n);
  });
}

template <typename T>
void RunGrad(KernelContext& ctx) {
  const Shapes& s = ctx.state<Shapes>();
  const T* x = ctx.in(0).as<T>();
  const T* y = ctx.in(1).as<T>();
  const T* d = ctx.in(2).as<T>();
  if (Tensor& grad = ctx.out(0)) {
    if (s.sums_x) std::memset(grad.data, 0, grad.bytes());
    const Gemm gemm{false, true, s.m, s.k, s.n, 1.0, s.sums_x ? 1.0 : 0.0};
    ForEachProduct(s.batch, [&](int64_t i, int64_t j, int64_t o) {
      gemm.Run(d + o * s.m * s.n, y + j * s.k * s.n, grad.as<T>() + i * s.m * s.k);
    });
  }
  if (Tensor& grad = ctx.out(1)) {
    if (s.sums_y) std::memset(grad.data, 0, grad.bytes());
    const Gemm gemm{true, false, s.k, s.n, s.m, 1.0, s.sums_y ? 1.0 : 0.0};
    ForEachProduct(s.batch, [&](int64_t i, int64_t j, int64_t o) {
      gemm.Run(x + i * s.m * s.k, d + o * s.m * s.n, grad.as<T>() + j * s.k * s.n);
    });
  }
}

void Shape(ShapeContext& ctx) {
  CheckSameDType(ctx.in(0), "X", ctx.in(1), "Y");
  const Dims& x = ctx.in(0).dims;
  const Dims& y = ctx.in(1).dims;
  OPSTEP_CHECK(x.rank() > 0 && y.rank() > 0, "X is ", x.ToString(), " and Y is ", y.ToString(),
               ": a product needs at least one dimension on both sides");
  const int64_t k_x = x[x.rank() - 1];
  const int64_t k_y = y[y.rank() == 1 ? 0 : y.rank() - 2];
  OPSTEP_CHECK(SizesAgree(k_x, k_y), "X is ", x.ToString(), " but Y is ", y.ToString(),
               ": inner sizes ", k_x, " and ", k_y, " differ");
  Dims out = BroadcastDims(BatchOf(x), "the batch of X", BatchOf(y), "the batch of Y");
  if (x.rank() > 1) out.push_back(x[x.rank() - 2]);
  if (y.rank() > 1) out.push_back(y[y.rank() - 1]);
  ctx.set_out(0, {ctx.in(0).dtype, out});
}

constexpr DTypeSet kFactors = kFloats | DTypeSet(DType::kInt32, DType::kInt64);

const bool kMatmul =
    Op("matmul")
        .Doc("Matrix product of the last two dimensions; the others are a batch and broadcast.")
        .In("X", "[..., M, K] or [K]", kFactors)
        .In("Y", "[..., K, N] or [K]", kFactors)
        .Out("out", "[..., M, N]; without M or N where X or Y has one dimension", kFactors)
        .Shape(Shape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchNumbers(ctx.in(0).dtype, [&](auto t) {
            return WithState(Run<decltype(t)>, Analyse(ctx.in(0).dims, ctx.in(1).dims));
          });
        })
        .Grad([](GradContext& g) {
          g.EmitGrad("matmul_grad", {"X", "Y"}, {}, {"out"}, {"X", "Y"});
        })
        .Oracle("np.matmul(X, Y)")
        .Sample("X=[3,5] Y=[5,7]")
        .Sample("X=[1,33] Y=[33,1]")
        .Sample("X=[5] Y=[5,3]")
        .Sample("X=[4,5] Y=[5]")
        .Sample("X=[6] Y=[6]")
        .Sample("X=[2,3,4] Y=[4,5]")
        .Sample("X=[3,4] Y=[2,4,5]")
        .Sample("X=[2,1,3,4] Y=[5,4,2]")
        .Sample("X=[2,3,4] Y=[1,4,2]")
        .Sample("X=[1,3,4] Y=[1,1,4,2]")
        .Sample("X=[2,3,4] Y=[4]")
        .Sample("X=[4] Y=[3,4,2]")
        .Sample("X=[3,0] Y=[0,2]")
        .Sample("X=[0,3] Y=[3,2]")
        .Sample("X=[0,2,3] Y=[3,2]")
        .Register();

const bool kMatmulGrad =
    Op("matmul_grad")
        .Doc("Gradient of matmul: dout @ Y^T and X^T @ dout, summed over broadcast batches.")
        .In("X", "left side", kFloats)
        .In("Y", "right side", kFloats)
        .In("dout", "gradient of out", kFloats)
        .Out("dX", "gradient of X", kFloats)
        .Optional()
        .Out("dY", "gradient of Y", kFloats)
        .Optional()
        .Shape(GradsLikeInputs)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
            return WithState(RunGrad<decltype(t)>, Analyse(ctx.in(0).dims, ctx.in(1).dims));
          });
        })
        .Grad([](GradContext& g) { ProductGradient(g, "Y"); })
        .Register();

}  // namespace
}  // namespace opstep
