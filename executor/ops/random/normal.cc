// normal: random numbers from a normal distribution, the same on every platform.
#include <bit>
#include <cmath>

#include "ops/lib/dispatch.h"
#include "ops/lib/random.h"
#include "ops/lib/shape_rules.h"
#include "ops/op.h"

namespace opstep {
namespace {

// log(x) for 0 < x < 1 from basic arithmetic only: libraries differ in the last bit, and the
// numbers must be the same on every platform.
double PortableLog(double x) {
  int e;
  double m = std::frexp(x, &e);
  if (m < 0.70710678118654757) {
    m *= 2;
    e -= 1;
  }
  const double s = (m - 1) / (m + 1), z = s * s;
  double p = 0;
  for (int k = 23; k >= 1; k -= 2) p = p * z + 1.0 / k;
  return 2 * s * p + e * 0.69314718055994529;
}

double Horner(const double (&c)[8], double x) {
  double p = c[7];
  for (int i = 6; i >= 0; --i) p = p * x + c[i];
  return p;
}

// The quantile u of a standard normal distribution: Wichura's AS 241 (PPND16).
double NormalQuantile(double u) {
  static constexpr double kA[8] = {3.3871328727963666080e0, 1.3314166789178437745e2,
                                   1.9715909503065514427e3, 1.3731693765509461125e4,
                                   4.5921953931549871457e4, 6.7265770927008700853e4,
                                   3.3430575583588128105e4, 2.5090809287301226727e3};
  static constexpr double kB[8] = {1.0,
                                   4.2313330701600911252e1,
                                   6.8718700749205790830e2,
                                   5.3941960214247511077e3,
                                   2.1213794301586595867e4,
                                   3.9307895800092710610e4,
                                   2.8729085735721942674e4,
                                   5.2264952788528545610e3};
  static constexpr double kC[8] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                   5.76949722146069140550e0,  3.64784832476320460504e0,
                                   1.27045825245236838258e0,  2.41780725177450611770e-1,
                                   2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr double kD[8] = {1.0,
                                   2.05319162663775882187e0,
                                   1.67638483018380384940e0,
                                   6.89767334985100004550e-1,
                                   1.48103976427480074590e-1,
                                   1.51986665636164571966e-2,
                                   5.47593808499534494600e-4,
                                   1.05075007164441684324e-9};
  static constexpr double kE[8] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                   1.78482653991729133580e0,  2.96560571828504891230e-1,
                                   2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                   2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr double kF[8] = {1.0,
                                   5.99832206555887937690e-1,
                                   1.36929880922735805310e-1,
                                   1.48753612908506148525e-2,
                                   7.86869131145613259100e-4,
                                   1.84631831751005468180e-5,
                                   1.42151175831644588870e-7,
                                   2.04426310338993978564e-15};
  const double q = u - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * Horner(kA, r) / Horner(kB, r);
  }
  const double r = std::sqrt(-PortableLog(q < 0 ? u : 1 - u));
  const double tail =
      r <= 5 ? Horner(kC, r - 1.6) / Horner(kD, r - 1.6) : Horner(kE, r - 5) / Horner(kF, r - 5);
  return q < 0 ? -tail : tail;
}

struct State {
  CounterRandom random;
  double mean;
  double std;
};

template <typename T>
void Run(KernelContext& ctx) {
  const State& state = ctx.state<State>();
  T* out = ctx.out(0).as<T>();
  const int64_t n = ctx.out(0).numel;
  for (int64_t i = 0; i < n; ++i) {
    // The middle of one of 2^52 cells: never 0 and never 1.
    const double u = (static_cast<double>(state.random.Bits(i) >> 12) + 0.5) * 0x1p-52;
    out[i] = static_cast<T>(state.mean + NormalQuantile(u) * state.std);
  }
}

const bool kNormal =
    Op("normal")
        .Doc("Random numbers from a normal distribution.")
        .Required("shape", AttrType::kInts, "sizes of the tensor")
        .Attr(DTypeAttr("dtype", DType::kFloat32), "its dtype")
        .Attr(FloatAttr("mean", 0.0), "mean of the distribution")
        .Attr(FloatAttr("std", 1.0), "standard deviation, 0 or more")
        .Attr(IntAttr("seed", 0), "equal seeds give equal numbers on every machine")
        .Out("out", "the numbers", kAllFloats)
        .Shape([](ShapeContext& ctx) {
          OPSTEP_CHECK(ctx.op().Float("std") >= 0, "std is ", ctx.op().Float("std"),
                       ": it must be 0 or more");
          ctx.set_out(0, {ctx.op().DType("dtype"), DimsFromAttr(ctx.op(), "shape")});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const OpView& op = ctx.op();
          return DispatchAllFloats(ctx.out(0).dtype, [&](auto t) {
            return WithState(Run<decltype(t)>, State{CounterRandom(op.Int("seed")),
                                                     op.Float("mean"), op.Float("std")});
          });
        })
        .Oracle(R"(
from statistics import NormalDist
def mix(x):
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
step = np.uint64(0x9E3779B97F4A7C15)
key = mix(np.array([seed]).astype(np.uint64) + step)
bits = mix(key + np.arange(np.prod(shape, dtype=int), dtype=np.uint64) * step)
unit = ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
values = np.array([NormalDist().inv_cdf(u) for u in unit.tolist()], np.float64)
(mean + values * std).astype(dtype).reshape(shape)
)")
        .Sample("shape=[100,37] dtype=float64 seed=1")
        .Sample("shape=[1001] dtype=float32 mean=-3 std=0.5 seed=77")
        .Sample("shape=[101] dtype=float16 std=9 seed=5")
        .Sample("shape=[101] dtype=bfloat16 mean=2 seed=5")
        .Sample("shape=[] dtype=float32 seed=3")
        .Sample("shape=[0,2] dtype=float64 seed=3")
        .Register();

}  // namespace
}  // namespace opstep
