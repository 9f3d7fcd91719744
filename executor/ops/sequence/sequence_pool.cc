// sequence_pool: one row for each sequence (sum, mean, last …), and its gradient.
#include "ops/sequence/sequences.h"

namespace opstep {
namespace {

enum class Pool { kSum, kMean, kSqrt, kMax, kFirst, kLast };

Pool PoolOf(const OpView& op) {
  const std::string& name = op.String("pool");
  if (name == "sum") return Pool::kSum;
  if (name == "mean") return Pool::kMean;
  if (name == "sqrt") return Pool::kSqrt;
  if (name == "max") return Pool::kMax;
  if (name == "first") return Pool::kFirst;
  OPSTEP_CHECK(name == "last", "pool is '", name,
               "': it must be 'sum', 'mean', 'sqrt', 'max', 'first' or 'last'");
  return Pool::kLast;
}

struct State {
  Pool pool = Pool::kSum;
  // Elements of a row.
  int64_t width = 1;
  double pad_value = 0;
};

State MakeState(const PrepareContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  return {PoolOf(ctx.op()), ProductOf(x, 1, x.rank()), ctx.op().Float("pad_value")};
}

// The factor of the sum of `count` rows.
template <typename T>
T ScaleOf(Pool pool, int64_t count) {
  if (pool == Pool::kMean) return T(1) / static_cast<T>(count);
  if (pool == Pool::kSqrt) return T(1) / std::sqrt(static_cast<T>(count));
  return T(1);
}

template <typename T>
struct Body {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const State& state = ctx.state<State>();
    const T* x = ctx.in(0).as<T>();
    T* out = ctx.out(0).as<T>();
    const int64_t width = state.width;
    ForEachSequence(ctx.in(1), ctx.in(0).dims[0],
                    [&](int64_t s, int64_t begin, int64_t end) OPSTEP_INLINE_LAMBDA {
                      T* to = out + s * width;
                      if (begin == end) {
                        std::fill_n(to, width, static_cast<T>(state.pad_value));
                        return;
                      }
                      const int64_t first = state.pool == Pool::kLast ? end - 1 : begin;
                      CopyElements(x + first * width, to, width);
                      if (state.pool == Pool::kFirst || state.pool == Pool::kLast) return;
                      Fold(state.pool, x, begin, end, width, to);
                    });
  }

  // The rows after the first one.
  OPSTEP_INLINE static void Fold(Pool pool, const T* x, int64_t begin, int64_t end, int64_t width,
                                 T* to) {
    for (int64_t row = begin + 1; row < end; ++row) {
      const T* from = x + row * width;
      if (pool == Pool::kMax) {
#pragma GCC ivdep
        for (int64_t i = 0; i < width; ++i) to[i] = MaxOf(to[i], from[i]);
      } else {
#pragma GCC ivdep
        for (int64_t i = 0; i < width; ++i) to[i] += from[i];
      }
    }
    if (pool != Pool::kMean && pool != Pool::kSqrt) return;
    const T scale = ScaleOf<T>(pool, end - begin);
#pragma GCC ivdep
    for (int64_t i = 0; i < width; ++i) to[i] *= scale;
  }
};

template <typename T>
struct GradBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const State& state = ctx.state<State>();
    const T* x = ctx.in(0).as<T>();
    const T* dout = ctx.in(2).as<T>();
    Tensor& grad = ctx.out(0);
    T* dx = grad.as<T>();
    const int64_t width = state.width;
    if (grad.numel > 0) std::memset(grad.data, 0, grad.bytes());
    ForEachSequence(ctx.in(1), ctx.in(0).dims[0],
                    [&](int64_t s, int64_t begin, int64_t end) OPSTEP_INLINE_LAMBDA {
                      if (begin == end) return;
                      const T* d = dout + s * width;
                      if (state.pool == Pool::kFirst) {
                        CopyElements(d, dx + begin * width, width);
                      } else if (state.pool == Pool::kLast) {
                        CopyElements(d, dx + (end - 1) * width, width);
                      } else if (state.pool == Pool::kMax) {
                        ToTheLargest(x, d, begin, end, width, dx);
                      } else {
                        Spread(d, ScaleOf<T>(state.pool, end - begin), begin, end, width, dx);
                      }
                    });
  }

  OPSTEP_INLINE static void Spread(const T* d, T scale, int64_t begin, int64_t end, int64_t width,
                                   T* dx) {
    for (int64_t row = begin; row < end; ++row) {
      T* to = dx + row * width;
#pragma GCC ivdep
      for (int64_t i = 0; i < width; ++i) to[i] = d[i] * scale;
    }
  }

  // The first of several equal ones gets it; a NaN counts as the largest.
  OPSTEP_INLINE static void ToTheLargest(const T* x, const T* d, int64_t begin, int64_t end,
                                         int64_t width, T* dx) {
    for (int64_t i = 0; i < width; ++i) {
      int64_t best = begin * width + i;
      for (int64_t at = best + width; at < end * width; at += width) {
        if (x[best] == x[best] && !(x[at] <= x[best])) best = at;
      }
      dx[best] = d[i];
    }
  }
};

Op& WithAttrs(Op& op) {
  return op
      .Required(
          "pool", AttrType::kString,
          "sum, mean, sqrt (the sum divided by the root of the number of rows), max, first or "
          "last")
      .Attr(FloatAttr("pad_value", 0.0), "the result of an empty sequence");
}

const bool kSequencePool =
    WithAttrs(
        Op("sequence_pool")
            .Doc("One row for each sequence of a ragged tensor.")
            .In("X", "the rows of all sequences: [rows, …]", kFloats)
            .In("offsets", "[sequences + 1]: where each begins, and the number of rows", kOffsets))
        .Out("out", "[sequences, …]", kFloats)
        .Shape([](ShapeContext& ctx) {
          PoolOf(ctx.op());
          RowCount(ctx.in(0).dims, "X");
          ctx.set_out(
              0, {ctx.in(0).dtype, WithFirst({SequenceCount(ctx.in(1).dims)}, ctx.in(0).dims, 1)});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
            return WithState(Best<Body<decltype(t)>>(), MakeState(ctx));
          });
        })
        .Grad([](GradContext& g) {
          g.EmitGrad("sequence_pool_grad", {"X", "offsets"}, {}, {"out"}, {"X"});
        })
        .Oracle(R"(
def pooled(rows):
    if not len(rows): return np.full(X.shape[1:], pad_value, X.dtype)
    if pool == "max": return rows.max(axis=0)
    if pool in ("first", "last"): return rows[0 if pool == "first" else -1]
    power = {"sum": 0, "mean": 1, "sqrt": 0.5}[pool]
    return (rows.sum(axis=0) / len(rows) ** power).astype(X.dtype)
parts = [pooled(X[a:b]) for a, b in zip(offsets, offsets[1:])]
np.stack(parts) if parts else np.empty((0, *X.shape[1:]), X.dtype)
)")
        .Sample("X=[7,3] offsets=int64[4]{rising:7} pool=sum")
        .Sample("X=[19,17] offsets=int64[5]{rising:19} pool=mean")
        .Sample("X=[9,2,3] offsets=int64[4]{rising:9} pool=sqrt")
        .Sample("X=[19,17] offsets=int64[6]{rising:19} pool=max")
        .Sample("X=[7] offsets=int64[3]{rising:7} pool=max")
        .Sample("X=[7,3] offsets=int64[4]{rising:7} pool=first")
        .Sample("X=[7,3] offsets=int64[4]{rising:7} pool=last")
        .Sample("X=[2,3] offsets=int64[8]{rising:2} pool=mean pad_value=-1.5")
        .Sample("X=[2,3] offsets=int64[8]{rising:2} pool=max pad_value=2")
        .Sample("X=[0,3] offsets=int64[3]{rising:0} pool=last")
        .Sample("X=[0,3] offsets=int64[1]{rising:0} pool=sum")
        .Sample("X=[3,0] offsets=int64[3]{rising:3} pool=sum")
        .Sample("X=float32[13,3]{special} offsets=int64[4]{rising:13} pool=max")
        .Register();

const bool kSequencePoolGrad =
    WithAttrs(Op("sequence_pool_grad")
                  .Doc("Gradient of sequence_pool: dout to the rows that each sequence's row was "
                       "computed from.")
                  .In("X", "of the forward op", kFloats)
                  .In("offsets", "of the forward op", kOffsets)
                  .In("dout", "gradient of out", kFloats))
        .Out("dX", "gradient of X", kFloats)
        .Shape(OutLikeInput<0>)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
            return WithState(Best<GradBody<decltype(t)>>(), MakeState(ctx));
          });
        })
        .Register();

}  // namespace
}  // namespace opstep
