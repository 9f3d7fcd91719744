// random_uniform_like: uniform random numbers, shaped as X.
#include <cmath>
#include <string>

#include "ops/lib/dispatch.h"
#include "ops/lib/element_random.h"
#include "ops/lib/raw_elements.h"
#include "ops/op.h"

namespace opstep {
namespace {

struct State {
  int64_t seed = 0;
  double low = 0.0, range = 1.0, last = 1.0;
};

template <typename T>
struct Body {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const State& state = ctx.state<State>();
    const ElementRandom random(state.seed, CountOf(ctx.in(1)));
    T* out = ctx.out(0).as<T>();
    const double last = state.last;
    random.ForEach(ctx.out(0).numel, [&](int64_t i, int32_t bits) OPSTEP_INLINE_LAMBDA {
      const double value = state.low + static_cast<double>(bits) * 0x1p-31 * state.range;
      out[i] = static_cast<T>(value < last ? value : last);
    });
  }
};

const bool kUniformLike =
    Op("random_uniform_like")
        .Doc("Random numbers that are equally likely anywhere in [low, high), shaped as X.")
        .In("X", "any shape", kEvery)
        .ShapeOnly()
        .In("count", kCountDoc, DTypeSet(DType::kInt64))
        .Optional()
        .Attr(FloatAttr("low", 0.0), "smallest number")
        .Attr(FloatAttr("high", 1.0), "the numbers stay below it")
        .Attr(IntAttr("seed", 0), "equal seeds and counts give equal numbers on every machine")
        .Attr(DTypeAttr("dtype", DType::kNone), "their dtype; that of X unless given")
        .Out("out", "the numbers", kFloats)
        .Shape([](ShapeContext& ctx) {
          const OpView& op = ctx.op();
          const DType dtype = DTypeLike(op, ctx.in(0).dtype);
          OPSTEP_CHECK(kFloats.Has(dtype), "X is ", NameOf(ctx.in(0).dtype),
                       ": name a dtype among ", kFloats.Names());
          OPSTEP_CHECK(op.Float("low") < op.Float("high"), "low is ", op.Float("low"),
                       " but high is ", op.Float("high"), ": high must be larger");
          CheckCount(ctx.in(1).dims);
          ctx.set_out(0, {dtype, ctx.in(0).dims});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const OpView& op = ctx.op();
          const double low = op.Float("low"), high = op.Float("high");
          return DispatchFloats(ctx.out(0).dtype, [&](auto t) -> Kernel {
            using T = decltype(t);
            // The largest number of the dtype below high: rounding must not reach high.
            const double last = std::nextafter(static_cast<T>(high), static_cast<T>(low));
            return WithState(Best<Body<T>>(), State{op.Int("seed"), low, high - low, last});
          });
        })
        .Oracle(std::string(kBitsOracle) + R"(
(low + bits.astype(np.float64) * 2.0**-31 * (high - low)).astype(dtype or X.dtype)
)")
        .Sample("X=float32[33,7]")
        .Sample("X=float64[100] low=-2 high=5 seed=3 count=int64[]{0,99}")
        .Sample("X=int64[9] dtype=float32")
        .Sample("X=float32[]")
        .Sample("X=float64[0,2]")
        .Register();

}  // namespace
}  // namespace opstep
