// Ops that copy X and then write updates to places in it, and their gradients.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "ops/indexing/index_lookup.h"

namespace opstep {

enum class Reduction { kNone, kAdd, kMul, kMax, kMin };

inline Reduction ReductionOf(const OpView& op) {
  const std::string& name = op.String("reduction");
  if (name == "none") return Reduction::kNone;
  if (name == "add") return Reduction::kAdd;
  if (name == "mul") return Reduction::kMul;
  if (name == "max") return Reduction::kMax;
  OPSTEP_CHECK(name == "min", "reduction is '", name, "': it must be none, add, mul, max or min");
  return Reduction::kMin;
}

template <Reduction kReduction, typename T>
OPSTEP_INLINE T Reduce(T old, T update) {
  if constexpr (kReduction == Reduction::kAdd) return Plus(old, update);
  if constexpr (kReduction == Reduction::kMul) return Times(old, update);
  if constexpr (kReduction == Reduction::kMax) return MaxOf(old, update);
  if constexpr (kReduction == Reduction::kMin) return MinOf(old, update);
  return update;
}

// Inputs X, indices, updates. T is the dtype, or with kNone any type of its size.
template <typename Lookup, Reduction kReduction, typename T>
struct ScatterBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const Lookup& lookup = ctx.state<Lookup>();
    const Tensor& x = ctx.in(0);
    Tensor& out = ctx.out(0);
    if (out.data != x.data && x.numel > 0) std::memcpy(out.data, x.data, x.bytes());
    T* base = out.as<T>();
    const T* updates = ctx.in(2).as<T>();
    const int64_t n = lookup.slice();
    lookup.ForEach(ctx.in(1), [&](int64_t k, int64_t place) OPSTEP_INLINE_LAMBDA {
      T* to = base + place;
      const T* from = updates + k * n;
      if constexpr (kReduction == Reduction::kNone) {
        CopyElements(from, to, n);
      } else {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) to[i] = Reduce<kReduction>(to[i], from[i]);
      }
    });
  }
};

template <typename Lookup>
Kernel ScatterKernel(const PrepareContext& ctx, const Lookup& lookup) {
  const DType dtype = ctx.in(0).dtype;
  const auto reduce = [&]<Reduction kReduction>() {
    return DispatchNumbers(dtype, [&](auto t) -> Kernel {
      return WithState(BestFor<Lookup, ScatterBody<Lookup, kReduction, decltype(t)>>(), lookup);
    });
  };
  switch (ReductionOf(ctx.op())) {
    case Reduction::kAdd:
      return reduce.template operator()<Reduction::kAdd>();
    case Reduction::kMul:
      return reduce.template operator()<Reduction::kMul>();
    case Reduction::kMax:
      return reduce.template operator()<Reduction::kMax>();
    case Reduction::kMin:
      return reduce.template operator()<Reduction::kMin>();
    case Reduction::kNone:
      break;
  }
  return DispatchRaw(dtype, [&](auto u) -> Kernel {
    return WithState(RunBaseline<ScatterBody<Lookup, Reduction::kNone, decltype(u)>>, lookup);
  });
}

// Inputs indices, dout and, for the largest and smallest, X, updates and out; outputs dX, dupdates.
template <typename Lookup, Reduction kReduction, typename T>
struct ScatterGradBody {
  static constexpr bool kChooses = kReduction == Reduction::kMax || kReduction == Reduction::kMin;

  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    // dX last: it may lie in the memory of dout.
    if (ctx.out(1)) Updates(ctx);
    if (ctx.out(0)) Whole(ctx);
  }

  OPSTEP_INLINE static void Updates(KernelContext& ctx) {
    const Lookup& lookup = ctx.state<Lookup>();
    const Tensor& dout = ctx.in(1);
    const T* d = dout.as<T>();
    T* grad = ctx.out(1).as<T>();
    const int64_t n = lookup.slice();
    if constexpr (kReduction == Reduction::kNone) {
      // Of updates to the same place the last one counts.
      std::vector<int64_t> last(n > 0 ? dout.numel / n : 0);
      lookup.ForEach(ctx.in(0), [&](int64_t k, int64_t place) OPSTEP_INLINE_LAMBDA {
        if (n > 0) last[place / n] = k;
      });
      lookup.ForEach(ctx.in(0), [&](int64_t k, int64_t place) OPSTEP_INLINE_LAMBDA {
        const bool counts = n > 0 && last[place / n] == k;
        for (int64_t i = 0; i < n; ++i) grad[k * n + i] = counts ? d[place + i] : T(0);
      });
    } else {
      const T* updates = ctx.in(3).as<T>();
      const T* out = ctx.in(4).as<T>();
      lookup.ForEach(ctx.in(0), [&](int64_t k, int64_t place) OPSTEP_INLINE_LAMBDA {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) {
          bool counts = true;
          if constexpr (kChooses) counts = updates[k * n + i] == out[place + i];
          grad[k * n + i] = counts ? d[place + i] : T(0);
        }
      });
    }
  }

  OPSTEP_INLINE static void Whole(KernelContext& ctx) {
    const Lookup& lookup = ctx.state<Lookup>();
    const Tensor& dout = ctx.in(1);
    Tensor& grad = ctx.out(0);
    T* dx = grad.as<T>();
    if constexpr (kChooses) {
      const T* d = dout.as<T>();
      const T* x = ctx.in(2).as<T>();
      const T* out = ctx.in(4).as<T>();
#pragma GCC ivdep
      for (int64_t i = 0; i < grad.numel; ++i) dx[i] = x[i] == out[i] ? d[i] : T(0);
      return;
    }
    if (dx != dout.data && grad.numel > 0) std::memcpy(grad.data, dout.data, grad.bytes());
    if constexpr (kReduction == Reduction::kNone) {
      const int64_t n = lookup.slice();
      lookup.ForEach(ctx.in(0), [&](int64_t, int64_t place)
                                    OPSTEP_INLINE_LAMBDA { std::fill_n(dx + place, n, T(0)); });
    }
  }
};

template <typename Lookup>
Kernel ScatterGradKernel(const PrepareContext& ctx, const Lookup& lookup) {
  const Reduction reduction = ReductionOf(ctx.op());
  if (reduction == Reduction::kMax || reduction == Reduction::kMin) {
    for (int i = 2; i < 5; ++i)
      OPSTEP_CHECK(ctx.in(i).dtype != DType::kNone, "the gradient of a largest or smallest update ",
                   "needs X, updates and out");
  }
  const auto grad = [&]<Reduction kReduction>() {
    return DispatchFloats(ctx.in(1).dtype, [&](auto t) -> Kernel {
      using Body = ScatterGradBody<Lookup, kReduction, decltype(t)>;
      // The choice goes through all of X.
      if constexpr (Body::kChooses) {
        return WithState(Best<Body>(), lookup);
      } else {
        return WithState(BestFor<Lookup, Body>(), lookup);
      }
    });
  };
  switch (reduction) {
    case Reduction::kMax:
      return grad.template operator()<Reduction::kMax>();
    case Reduction::kMin:
      return grad.template operator()<Reduction::kMin>();
    case Reduction::kNone:
      return grad.template operator()<Reduction::kNone>();
    default:
      return grad.template operator()<Reduction::kAdd>();
  }
}

inline void EmitScatterGrad(GradContext& g, std::string type) {
  const Reduction reduction = ReductionOf(g.op());
  OPSTEP_CHECK(reduction != Reduction::kMul, "with reduction 'mul' it has no gradient");
  const bool chooses = reduction == Reduction::kMax || reduction == Reduction::kMin;
  const auto only = [&](const Names& names) { return chooses ? names : Names{}; };
  g.Emit(std::move(type),
         {{"indices", g.op().Inputs("indices")},
          {"dout", {g.OutGrad("out")}},
          {"X", only(g.op().Inputs("X"))},
          {"updates", only(g.op().Inputs("updates"))},
          {"out", only(g.op().Outputs("out"))}},
         {{"dX", {g.InGrad("X")}}, {"dupdates", {g.InGrad("updates")}}},
         {g.op().desc().attrs().begin(), g.op().desc().attrs().end()});
}

// Shared parts of the scattering ops.
inline Op ScatterOp(std::string type, std::string doc, std::string indices) {
  Op op(std::move(type));
  op.Doc(std::move(doc))
      .In("X", "any shape", kEvery)
      .In("indices", std::move(indices), kIndices)
      .In("updates", "what to write", kEvery)
      .Attr(StringAttr("reduction", "none"),
            "none replaces the element (of several updates the last one stays); add, mul, max and "
            "min combine it with the update")
      .Out("out", "X with the updates", kEvery);
  return op;
}

inline Op ScatterGradOp(std::string type, const std::string& forward) {
  Op op(std::move(type));
  op.Doc("Gradient of " + forward + ".")
      .In("indices", "as in " + forward, kIndices)
      .In("dout", "gradient of out", kFloats)
      .In("X", "as in " + forward + ", for max and min", kFloats)
      .Optional()
      .In("updates", "as in " + forward + ", for max and min", kFloats)
      .Optional()
      .In("out", "output of " + forward + ", for max and min", kFloats)
      .Optional()
      .Attr(StringAttr("reduction", "none"), "as in " + forward)
      .Out("dX", "gradient of X", kFloats)
      .Optional()
      .InplaceOf("dout")
      .Out("dupdates", "gradient of updates", kFloats)
      .Optional();
  return op;
}

}  // namespace opstep
