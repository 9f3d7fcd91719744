// uniform: random numbers that are equally likely anywhere in [min, max).
#include <cmath>
#include <limits>
#include <type_traits>

#include "ops/lib/dispatch.h"
#include "ops/lib/random.h"
#include "ops/lib/shape_rules.h"
#include "ops/op.h"

namespace opstep {
namespace {

struct State {
  CounterRandom random;
  double min;
  double range;
  // The largest number of the dtype below max: rounding must not reach max.
  double last;
};

// The next smaller number than x.
template <typename T>
T Below(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::nextafter(x, -std::numeric_limits<T>::infinity());
  } else if (x == 0.0f) {
    x.bits = 0x8001u;
  } else {
    x.bits = static_cast<uint16_t>(x > 0.0f ? x.bits - 1 : x.bits + 1);
  }
  return x;
}

template <typename T>
void Run(KernelContext& ctx) {
  const State& state = ctx.state<State>();
  T* out = ctx.out(0).as<T>();
  const int64_t n = ctx.out(0).numel;
  const T last = static_cast<T>(state.last);
  for (int64_t i = 0; i < n; ++i) {
    const T value = static_cast<T>(state.min + state.random.Unit(i) * state.range);
    out[i] = value < last ? value : last;
  }
}

const bool kUniform =
    Op("uniform")
        .Doc("Random numbers that are equally likely anywhere in [min, max).")
        .Required("shape", AttrType::kInts, "sizes of the tensor")
        .Attr(DTypeAttr("dtype", DType::kFloat32), "its dtype")
        .Attr(FloatAttr("min", -1.0), "smallest number")
        .Attr(FloatAttr("max", 1.0), "the numbers stay below it")
        .Attr(IntAttr("seed", 0), "equal seeds give equal numbers on every machine")
        .Out("out", "the numbers", kAllFloats)
        .Shape([](ShapeContext& ctx) {
          const OpView& op = ctx.op();
          OPSTEP_CHECK(op.Float("min") < op.Float("max"), "min is ", op.Float("min"),
                       " but max is ", op.Float("max"), ": max must be larger");
          ctx.set_out(0, {op.DType("dtype"), DimsFromAttr(op, "shape")});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const OpView& op = ctx.op();
          return DispatchAllFloats(ctx.out(0).dtype, [&](auto t) {
            using T = decltype(t);
            const double min = op.Float("min"), max = op.Float("max");
            const double last = Below(static_cast<T>(max));
            return WithState(Run<T>, State{CounterRandom(op.Int("seed")), min, max - min, last});
          });
        })
        .Oracle(R"(
def mix(x):
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
step = np.uint64(0x9E3779B97F4A7C15)
key = mix(np.array([seed]).astype(np.uint64) + step)
bits = mix(key + np.arange(np.prod(shape, dtype=int), dtype=np.uint64) * step)
unit = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
(min + unit * (max - min)).astype(dtype).reshape(shape)
)")
        .Sample("shape=[100,7] dtype=float32 min=-0.5 max=2.5 seed=1")
        .Sample("shape=[33] dtype=float64 min=0 max=1 seed=-9")
        .Sample("shape=[301] dtype=float16 min=-1000 max=60000 seed=2")
        .Sample("shape=[301] dtype=bfloat16 min=-3 max=0 seed=2")
        .Sample("shape=[] dtype=float32 seed=3")
        .Sample("shape=[0,2] dtype=float64 seed=3")
        .Register();

}  // namespace
}  // namespace opstep
