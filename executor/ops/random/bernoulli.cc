// bernoulli: 1 with the probability given by each element of X, else 0.
#include <string>

#include "ops/lib/dispatch.h"
#include "ops/lib/element_random.h"
#include "ops/lib/raw_elements.h"
#include "ops/op.h"

namespace opstep {
namespace {

struct State {
  int64_t seed = 0;
  uint64_t one = 1;
};

template <typename T, typename U>
struct Body {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const State& state = ctx.state<State>();
    const ElementRandom random(state.seed, CountOf(ctx.in(1)));
    const T* p = ctx.in(0).as<T>();
    U* out = ctx.out(0).as<U>();
    const U one = static_cast<U>(state.one);
    random.ForEach(ctx.out(0).numel, [&](int64_t i, int32_t bits) OPSTEP_INLINE_LAMBDA {
      // 24 bits: a float holds them exactly.
      const float unit = static_cast<float>(bits >> 7) * 0x1p-24f;
      out[i] = static_cast<T>(unit) < p[i] ? one : U{0};
    });
  }
};

const bool kBernoulli =
    Op("bernoulli")
        .Doc("1 with the probability given by each element of X, else 0.")
        .In("X", "probabilities", kFloats)
        .In("count", kCountDoc, DTypeSet(DType::kInt64))
        .Optional()
        .Attr(IntAttr("seed", 0), "equal seeds and counts give equal numbers on every machine")
        .Attr(DTypeAttr("dtype", DType::kNone), "dtype of out; that of X unless given")
        .Out("out", "shaped as X", kEvery)
        .Shape([](ShapeContext& ctx) {
          CheckCount(ctx.in(1).dims);
          ctx.set_out(0, {DTypeLike(ctx.op(), ctx.in(0).dtype), ctx.in(0).dims});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const DType dtype = ctx.out(0).dtype;
          const State state{ctx.op().Int("seed"), ElementBits(dtype, 1.0, "one")};
          return DispatchFloats(ctx.in(0).dtype, [&](auto t) -> Kernel {
            return DispatchRaw(dtype, [&](auto u) -> Kernel {
              return WithState(Best<Body<decltype(t), decltype(u)>>(), state);
            });
          });
        })
        .Oracle(std::string(kBitsOracle) + R"(
unit = (bits >> np.uint32(7)).astype(np.float32) * np.float32(2.0**-24)
(unit.astype(X.dtype) < X).astype(dtype or X.dtype)
)")
        .Sample("X=[33,7]{0,1}")
        .Sample("X=[100]{0,1} count=int64[]{0,99} seed=5 dtype=bool")
        .Sample("X=float32[17]{0.4,0.6} count=int64[1]{0,99} dtype=int64")
        .Sample("X=float64[17]{0,0.1} dtype=uint8 seed=-3")
        .Sample("X=float32[9]{1,1} dtype=float16")
        .Sample("X=float32[13]{special}")
        .Sample("X=[]{0,1}")
        .Sample("X=[0,2]")
        .Register();

}  // namespace
}  // namespace opstep
