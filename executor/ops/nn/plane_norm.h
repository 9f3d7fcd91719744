// Normalization of [N, C, ...] with a scale and a bias for each channel.
// A plane is one channel of one image; planes that share a mean and a variance are a set: the
// planes of a channel, of an image's group of channels, or each plane alone.
#pragma once

#include <cmath>

#include "ops/lib/dispatch.h"
#include "ops/lib/numeric.h"
#include "ops/lib/parallel_ranges.h"
#include "ops/lib/scratch.h"
#include "ops/lib/shape_rules.h"

namespace opstep {

struct PlaneSets {
  int64_t sets = 0, planes_in_set = 1;
  int64_t set_step = 1, plane_step = 1;  // in planes
  int64_t channels = 1, size = 1;

  int64_t plane(int64_t set, int64_t i) const { return set * set_step + i * plane_step; }
  int64_t planes() const { return sets * planes_in_set; }
  int64_t set_size() const { return planes_in_set * size; }
};

template <typename T>
struct Moments {
  T mean, variance;
};

template <typename T>
OPSTEP_INLINE Moments<T> MomentsOfSet(const PlaneSets& s, const T* x, int64_t set) {
  double sum = 0;
  for (int64_t i = 0; i < s.planes_in_set; ++i) {
    const T* from = x + s.plane(set, i) * s.size;
    sum += SumRun<T>(s.size, [&](int64_t j) OPSTEP_INLINE_LAMBDA { return from[j]; });
  }
  const T mean = static_cast<T>(sum / static_cast<double>(s.set_size()));
  double squares = 0;
  for (int64_t i = 0; i < s.planes_in_set; ++i) {
    const T* from = x + s.plane(set, i) * s.size;
    squares += SumRun<T>(s.size, [&](int64_t j) OPSTEP_INLINE_LAMBDA {
      return (from[j] - mean) * (from[j] - mean);
    });
  }
  return {mean, static_cast<T>(squares / static_cast<double>(s.set_size()))};
}

template <typename T>
OPSTEP_INLINE T InverseStd(T variance, double epsilon) {
  return T(1) / std::sqrt(variance + static_cast<T>(epsilon));
}

// out = (x - mean) * inv_std * scale + bias for the planes of a set.
template <typename T>
OPSTEP_INLINE void NormalizeSet(const PlaneSets& s, int64_t set, const T* x, T mean, T inv_std,
                                const T* scale, const T* bias, T* out) {
  for (int64_t i = 0; i < s.planes_in_set; ++i) {
    const int64_t plane = s.plane(set, i);
    const T factor = inv_std * scale[plane % s.channels];
    const T shift = bias[plane % s.channels];
    const T* from = x + plane * s.size;
    T* to = out + plane * s.size;
#pragma GCC ivdep
    for (int64_t j = 0; j < s.size; ++j) to[j] = (from[j] - mean) * factor + shift;
  }
}

// The sums for gradients, for each plane: sum(d) and sum(d * normalized x).
template <typename T>
struct PlaneSums {
  T* d;
  T* dx;

  PlaneSums(const PlaneSets& s, Scratch& scratch)
      : d(scratch.Take<T>(s.planes())), dx(scratch.Take<T>(s.planes())) {}

  OPSTEP_INLINE void Fill(const PlaneSets& s, int64_t set, const T* x, const T* dout, T mean,
                          T inv_std) const {
    for (int64_t i = 0; i < s.planes_in_set; ++i) {
      const int64_t plane = s.plane(set, i);
      const T* from = x + plane * s.size;
      const T* grad = dout + plane * s.size;
      d[plane] = SumRun<T>(s.size, [&](int64_t j) OPSTEP_INLINE_LAMBDA { return grad[j]; });
      dx[plane] =
          SumRun<T>(s.size,
                    [&](int64_t j) OPSTEP_INLINE_LAMBDA { return grad[j] * (from[j] - mean); }) *
          inv_std;
    }
  }

  // Sums over the planes of each channel, in the order of the batch. Either may be null.
  void ToChannels(const PlaneSets& s, T* dscale, T* dbias) const {
    for (int64_t c = 0; c < s.channels; ++c) {
      double sum_d = 0, sum_dx = 0;
      for (int64_t plane = c; plane < s.planes(); plane += s.channels) {
        sum_d += d[plane];
        sum_dx += dx[plane];
      }
      if (dbias != nullptr) dbias[c] = static_cast<T>(sum_d);
      if (dscale != nullptr) dscale[c] = static_cast<T>(sum_dx);
    }
  }
};

// The gradient of x for a set whose mean and variance came from x.
template <typename T>
OPSTEP_INLINE void BackSet(const PlaneSets& s, int64_t set, const PlaneSums<T>& sums, const T* x,
                           const T* dout, T mean, T inv_std, const T* scale, T* dx) {
  double total_d = 0, total_dx = 0;
  for (int64_t i = 0; i < s.planes_in_set; ++i) {
    const int64_t plane = s.plane(set, i);
    total_d += sums.d[plane] * scale[plane % s.channels];
    total_dx += sums.dx[plane] * scale[plane % s.channels];
  }
  const double count = static_cast<double>(s.set_size());
  const T mean_d = static_cast<T>(total_d / count);
  const T mean_dx = static_cast<T>(total_dx / count) * inv_std;
  for (int64_t i = 0; i < s.planes_in_set; ++i) {
    const int64_t plane = s.plane(set, i);
    const T factor = scale[plane % s.channels];
    const T* from = x + plane * s.size;
    const T* grad = dout + plane * s.size;
    T* to = dx + plane * s.size;
#pragma GCC ivdep
    for (int64_t j = 0; j < s.size; ++j) {
      to[j] = inv_std * (grad[j] * factor - mean_d - (from[j] - mean) * mean_dx);
    }
  }
}

struct PlaneNormState {
  PlaneSets sets;
  double epsilon = 0;
};

// Kernels of the ops whose moments always come from X: inputs X, scale, bias.
template <typename T>
void RunPlaneNorm(KernelContext& ctx) {
  const auto& [s, epsilon] = ctx.state<PlaneNormState>();
  const T* x = ctx.in(0).as<T>();
  const T* scale = ctx.in(1).as<T>();
  const T* bias = ctx.in(2).as<T>();
  T* out = ctx.out(0).as<T>();
  ParallelRanges(s.sets, 3 * s.set_size(), [&](int64_t begin, int64_t end) OPSTEP_INLINE_LAMBDA {
    for (int64_t set = begin; set < end; ++set) {
      const Moments<T> moments = MomentsOfSet(s, x, set);
      NormalizeSet(s, set, x, moments.mean, InverseStd(moments.variance, epsilon), scale, bias,
                   out);
    }
  });
}

// Inputs X, scale, dout; outputs dX, dscale, dbias.
template <typename T>
void RunPlaneNormGrad(KernelContext& ctx) {
  const auto& [s, epsilon] = ctx.state<PlaneNormState>();
  const T* x = ctx.in(0).as<T>();
  const T* scale = ctx.in(1).as<T>();
  const T* dout = ctx.in(2).as<T>();
  T* dx = ctx.out(0).as<T>();
  Scratch scratch;
  const PlaneSums<T> sums(s, scratch);
  ParallelRanges(s.sets, 6 * s.set_size(), [&](int64_t begin, int64_t end) OPSTEP_INLINE_LAMBDA {
    for (int64_t set = begin; set < end; ++set) {
      const Moments<T> moments = MomentsOfSet(s, x, set);
      const T inv_std = InverseStd(moments.variance, epsilon);
      sums.Fill(s, set, x, dout, moments.mean, inv_std);
      if (dx != nullptr) BackSet(s, set, sums, x, dout, moments.mean, inv_std, scale, dx);
    }
  });
  sums.ToChannels(s, ctx.out(1).as<T>(), ctx.out(2).as<T>());
}

// Shape rule of inputs X [N, C, ...], scale and then others, each with a value for each channel.
inline void PlaneNormShape(ShapeContext& ctx, const std::vector<std::string_view>& per_channel) {
  const Dims& x = ctx.in(0).dims;
  OPSTEP_CHECK(x.rank() >= 2, "X is ", x.ToString(), ": it must have a batch and channels");
  for (size_t i = 0; i < per_channel.size(); ++i) {
    const VarType& type = ctx.in(static_cast<int>(i) + 1);
    CheckSameDType(ctx.in(0), "X", type, per_channel[i]);
    OPSTEP_CHECK(type.dims.rank() == 1 && SizesAgree(type.dims[0], x[1]), "X has ", x[1],
                 " channels but ", per_channel[i], " is ", type.dims.ToString(),
                 ": it must have one value for each");
  }
  ctx.set_out(0, ctx.in(0));
}

inline int64_t PlaneSize(const Dims& x) {
  int64_t size = 1;
  for (int i = 2; i < x.rank(); ++i) size *= x[i];
  return size;
}

template <PlaneNormState (*kAnalyse)(const PrepareContext&), bool kGrad>
Kernel PreparePlaneNorm(const PrepareContext& ctx) {
  const PlaneNormState state = kAnalyse(ctx);
  return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
    using T = decltype(t);
    return WithState(kGrad ? RunPlaneNormGrad<T> : RunPlaneNorm<T>, state);
  });
}

// The gradient op of an op with inputs X, scale and bias; the caller adds attributes.
inline Op PlaneNormGradOp(std::string type, std::string doc) {
  Op op(std::move(type));
  op.Doc(std::move(doc))
      .In("X", "as in the forward op", kFloats)
      .In("scale", "as in the forward op", kFloats)
      .In("dout", "gradient of out", kFloats)
      .Out("dX", "gradient of X", kFloats)
      .Optional()
      .Out("dscale", "gradient of scale", kFloats)
      .Optional()
      .Out("dbias", "gradient of bias", kFloats)
      .Optional()
      .Shape([](ShapeContext& ctx) {
        ctx.set_out(0, ctx.in(0));
        ctx.set_out(1, ctx.in(1));
        ctx.set_out(2, ctx.in(1));
      });
  return op;
}

}  // namespace opstep
