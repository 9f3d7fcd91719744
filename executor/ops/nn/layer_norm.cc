// layer_norm: normalizes each row from an axis to the end, and its gradient.
#include <cmath>

#include "ops/grad/formula.h"
#include "ops/lib/dispatch.h"
#include "ops/lib/numeric.h"
#include "ops/lib/parallel_ranges.h"
#include "ops/lib/scratch.h"
#include "ops/lib/shape_rules.h"

namespace opstep {
namespace {

struct State {
  int64_t rows = 1, size = 1;
  double epsilon = 0;
};

State Analyse(const PrepareContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  const int axis = NormalizeAxis(ctx.op().Int("axis"), x, "X");
  State s;
  for (int i = 0; i < axis; ++i) s.rows *= x[i];
  for (int i = axis; i < x.rank(); ++i) s.size *= x[i];
  s.epsilon = ctx.op().Float("epsilon");
  return s;
}

template <typename T>
struct RowMoments {
  T mean, inv_std;
};

template <typename T>
OPSTEP_INLINE RowMoments<T> MomentsOf(const T* x, const State& s) {
  const T count = static_cast<T>(s.size);
  const T mean = SumRun<T>(s.size, [&](int64_t i) OPSTEP_INLINE_LAMBDA { return x[i]; }) / count;
  const T variance =
      SumRun<T>(s.size,
                [&](int64_t i) OPSTEP_INLINE_LAMBDA { return (x[i] - mean) * (x[i] - mean); }) /
      count;
  return {mean, T(1) / std::sqrt(variance + static_cast<T>(s.epsilon))};
}

template <typename T>
void Run(KernelContext& ctx) {
  const State& s = ctx.state<State>();
  const T* x = ctx.in(0).as<T>();
  const T* scale = ctx.in(1).as<T>();
  const T* bias = ctx.in(2).as<T>();
  T* out = ctx.out(0).as<T>();
  T* means = ctx.out(1).as<T>();
  T* inv_stds = ctx.out(2).as<T>();
  ParallelRanges(s.rows, 4 * s.size, [&](int64_t begin, int64_t end) OPSTEP_INLINE_LAMBDA {
    for (int64_t row = begin; row < end; ++row) {
      const T* from = x + row * s.size;
      T* to = out + row * s.size;
      const auto [mean, inv_std] = MomentsOf(from, s);
      if (means != nullptr) means[row] = mean;
      if (inv_stds != nullptr) inv_stds[row] = inv_std;
      if (bias != nullptr) {
#pragma GCC ivdep
        for (int64_t i = 0; i < s.size; ++i) {
          to[i] = (from[i] - mean) * inv_std * scale[i] + bias[i];
        }
      } else {
#pragma GCC ivdep
        for (int64_t i = 0; i < s.size; ++i) to[i] = (from[i] - mean) * inv_std * scale[i];
      }
    }
  });
}

// Rows are summed in parts that depend on sizes only, then the parts in order.
struct Parts {
  int64_t count, rows;

  explicit Parts(const State& s) {
    constexpr int64_t kElements = 1 << 16;
    constexpr int64_t kMost = 16;
    count = std::clamp<int64_t>(s.rows * s.size / kElements, 1, kMost);
    rows = (s.rows + count - 1) / count;
  }
};

template <typename T>
void RunGrad(KernelContext& ctx) {
  const State& s = ctx.state<State>();
  const T* x = ctx.in(0).as<T>();
  const T* scale = ctx.in(1).as<T>();
  const T* dout = ctx.in(2).as<T>();
  const T* means = ctx.in(3).as<T>();
  const T* inv_stds = ctx.in(4).as<T>();
  T* dx = ctx.out(0).as<T>();
  T* dscale = ctx.out(1).as<T>();
  T* dbias = ctx.out(2).as<T>();
  const Parts parts(s);
  Scratch scratch;
  T* scale_sums = scratch.Take<T>(parts.count * s.size);
  T* bias_sums = scratch.Take<T>(parts.count * s.size);
  ParallelRanges(
      parts.count, parts.rows * s.size * 6, [&](int64_t begin, int64_t end) OPSTEP_INLINE_LAMBDA {
        for (int64_t part = begin; part < end; ++part) {
          T* scale_sum = scale_sums + part * s.size;
          T* bias_sum = bias_sums + part * s.size;
          std::fill_n(scale_sum, s.size, T(0));
          std::fill_n(bias_sum, s.size, T(0));
          const int64_t last = std::min(s.rows, (part + 1) * parts.rows);
          for (int64_t row = part * parts.rows; row < last; ++row) {
            const T* from = x + row * s.size;
            const T* d = dout + row * s.size;
            const auto moments =
                means != nullptr ? RowMoments<T>{means[row], inv_stds[row]} : MomentsOf(from, s);
            const T mean = moments.mean;
            const T inv_std = moments.inv_std;
#pragma GCC ivdep
            for (int64_t i = 0; i < s.size; ++i) {
              scale_sum[i] += d[i] * ((from[i] - mean) * inv_std);
              bias_sum[i] += d[i];
            }
            if (dx == nullptr) continue;
            const T count = static_cast<T>(s.size);
            const T mean_d =
                SumRun<T>(s.size, [&](int64_t i) OPSTEP_INLINE_LAMBDA { return d[i] * scale[i]; }) /
                count;
            const T mean_dx = SumRun<T>(s.size,
                                        [&](int64_t i) OPSTEP_INLINE_LAMBDA {
                                          return d[i] * scale[i] * (from[i] - mean);
                                        }) /
                              count * inv_std * inv_std;
            T* to = dx + row * s.size;
#pragma GCC ivdep
            for (int64_t i = 0; i < s.size; ++i) {
              to[i] = inv_std * (d[i] * scale[i] - mean_d - (from[i] - mean) * mean_dx);
            }
          }
        }
      });
  const auto add_up = [&](const T* sums, T* to) {
    if (to == nullptr) return;
    std::fill_n(to, s.size, T(0));
    for (int64_t part = 0; part < parts.count; ++part) {
      const T* from = sums + part * s.size;
      for (int64_t i = 0; i < s.size; ++i) to[i] += from[i];
    }
  };
  add_up(scale_sums, dscale);
  add_up(bias_sums, dbias);
}

void Shape(ShapeContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  const int axis = NormalizeAxis(ctx.op().Int("axis"), x, "X");
  Dims rows, tail;
  for (int i = 0; i < x.rank(); ++i) {
    rows.push_back(i < axis ? x[i] : 1);
    if (i >= axis) tail.push_back(x[i]);
  }
  for (int i = 1; i <= 2; ++i) {
    const char* name = i == 1 ? "scale" : "bias";
    const VarType& type = ctx.in(i);
    if (type.dtype == DType::kNone) continue;
    CheckSameDType(ctx.in(0), "X", type, name);
    OPSTEP_CHECK(ShapesAgree(type.dims, tail), "X is ", x.ToString(), " but ", name, " is ",
                 type.dims.ToString(), ": from axis ", axis, " on they must be alike");
  }
  ctx.set_out(0, ctx.in(0));
  ctx.set_out(1, {ctx.in(0).dtype, rows});
  ctx.set_out(2, {ctx.in(0).dtype, rows});
}

Op WithAttrs(std::string type) {
  Op op(std::move(type));
  op.Attr(IntAttr("axis", -1), "the first of the axes that are normalized together")
      .Attr(FloatAttr("epsilon", 1e-5), "added to the variance");
  return op;
}

const bool kLayerNorm =
    WithAttrs("layer_norm")
        .Doc(
            "Gives each row, from an axis to the end, the mean 0 and the variance 1, then scale "
            "and bias.")
        .In("X", "at least one dimension", kFloats)
        .In("scale", "shaped as X from the axis on", kFloats)
        .In("bias", "as scale", kFloats)
        .Optional()
        .Out("out", "as X", kFloats)
        .Out("mean", "of each row, with size 1 from the axis on", kFloats)
        .Optional()
        .Out("inv_std", "1 / sqrt(variance + epsilon) of each row", kFloats)
        .Optional()
        .Shape(Shape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchFloats(ctx.in(0).dtype,
                                [&](auto t) { return WithState(Run<decltype(t)>, Analyse(ctx)); });
        })
        .Grad([](GradContext& g) {
          for (const char* name : {"mean", "inv_std"}) {
            OPSTEP_CHECK(g.op().Outputs(name).empty() || g.OutGrad(name).empty(),
                         "no gradient flows through ", name, ": compute it with a separate op");
          }
          g.EmitGrad("layer_norm_grad", {"X", "scale"}, {}, {"out"}, {"X", "scale", "bias"});
        })
        .Oracle(R"(
axes = tuple(range(axis % X.ndim, X.ndim))
m, v = X.mean(axis=axes, keepdims=True), X.var(axis=axes, keepdims=True)
inv = 1 / np.sqrt(v + X.dtype.type(epsilon))
unit = (X - m) * inv * scale
(unit + bias if 'bias' in globals() else unit, m, inv)
)")
        .Sample("X=[5,17] scale=[17] bias=[17]")
        .Sample("X=[2,3,33] scale=[33]")
        .Sample("X=[2,3,5] scale=[3,5] bias=[3,5] axis=1 epsilon=0.5 mean=wanted inv_std=wanted")
        .Sample("X=[4,3] scale=[4,3] bias=[4,3] axis=-2 inv_std=wanted")
        .Sample("X=[7] scale=[7] bias=[7] axis=0")
        .Sample("X=[3,1] scale=[1] bias=[1]")
        .Sample("X=[0,4] scale=[4] bias=[4]")
        .Register();

// Of layer_norm_grad: moments of each row, both or neither.
void CheckMoments(const ShapeContext& ctx) {
  const VarType &x = ctx.in(0), &mean = ctx.in(3), &inv_std = ctx.in(4);
  if (mean.dtype == DType::kNone && inv_std.dtype == DType::kNone) return;
  const int axis = NormalizeAxis(ctx.op().Int("axis"), x.dims, "X");
  Dims rows;
  for (int i = 0; i < x.dims.rank(); ++i) rows.push_back(i < axis ? x.dims[i] : 1);
  const auto fits = [&](const VarType& type) {
    return type.dtype == x.dtype && ShapesAgree(type.dims, rows);
  };
  OPSTEP_CHECK(fits(mean) && fits(inv_std), "mean and inv_std must both be ",
               VarType{x.dtype, rows}.ToString(), ", one value for each row of X");
}

// As RunGrad, in other ops.
void SecondGradient(GradContext& g) {
  const Term x = In(g, "X"), scale = In(g, "scale"), dout = In(g, "dout");
  // Run for the shape of its mean, the target shape of sums.
  const Term row(g.Fresh(Cat(g.op().desc().name(), ".mean")));
  g.Emit("layer_norm", {{"X", g.op().Inputs("X")}, {"scale", g.op().Inputs("scale")}},
         {{"out", {g.Fresh(Cat(g.op().desc().name(), ".out"))}}, {"mean", {row.Emit(g)}}},
         {g.op().desc().attrs().begin(), g.op().desc().attrs().end()});
  const Term count = SummedTo(Filled(x, 1), row);
  const auto mean = [&](const Term& of) { return SummedTo(of, row) / count; };
  const Term centred = x - mean(x);
  const Term variance = mean(centred * centred);
  const Term inv_std = Filled(row, 1) / SqrtOf(variance + Filled(row, g.op().Float("epsilon")));
  const Term unit = centred * inv_std, scaled = dout * scale;
  FormulaGradient(g,
                  {{"dX", inv_std * (scaled - mean(scaled) - unit * mean(scaled * unit))},
                   {"dscale", SummedTo(dout * unit, scale)},
                   {"dbias", SummedTo(dout, scale)}},
                  {"X", "scale", "dout"});
}

const bool kLayerNormGrad = WithAttrs("layer_norm_grad")
                                .Doc("Gradient of layer_norm.")
                                .In("X", "as in the forward op", kFloats)
                                .In("scale", "as in the forward op", kFloats)
                                .In("dout", "gradient of out", kFloats)
                                .In("mean", "of each row, when it is known already", kFloats)
                                .Optional()
                                .In("inv_std", "given with mean; then epsilon has no use", kFloats)
                                .Optional()
                                .Out("dX", "gradient of X", kFloats)
                                .Optional()
                                .Out("dscale", "gradient of scale", kFloats)
                                .Optional()
                                .Out("dbias", "gradient of bias", kFloats)
                                .Optional()
                                .Shape([](ShapeContext& ctx) {
                                  CheckMoments(ctx);
                                  ctx.set_out(0, ctx.in(0));
                                  ctx.set_out(1, ctx.in(1));
                                  ctx.set_out(2, ctx.in(1));
                                })
                                .Prepare([](const PrepareContext& ctx) -> Kernel {
                                  return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
                                    return WithState(RunGrad<decltype(t)>, Analyse(ctx));
                                  });
                                })
                                .Grad(SecondGradient)
                                .Register();

}  // namespace
}  // namespace opstep
