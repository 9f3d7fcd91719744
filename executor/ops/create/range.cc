// range: the numbers start, start + delta, start + 2 delta … before limit.
#include <cmath>

#include "ops/lib/dispatch.h"
#include "ops/lib/simd.h"
#include "ops/op.h"

namespace opstep {
namespace {

struct State {
  double start = 0.0, delta = 1.0;
};

template <typename T>
struct Body {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const State& state = ctx.state<State>();
    // Integers are computed as integers: they may be too large for a double.
    using Wide = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
    const Wide start = static_cast<Wide>(state.start), delta = static_cast<Wide>(state.delta);
    T* out = ctx.out(0).as<T>();
    const int64_t n = ctx.out(0).numel;
    for (int64_t i = 0; i < n; ++i) {
      out[i] = static_cast<T>(start + static_cast<Wide>(i) * delta);
    }
  }
};

const bool kRange =
    Op("range")
        .Doc("The numbers start, start + delta, start + 2 delta … before limit.")
        .Attr(FloatAttr("start", 0.0), "the first number")
        .Required("limit", AttrType::kFloat, "the numbers stay before it")
        .Attr(FloatAttr("delta", 1.0), "from one number to the next; negative goes down")
        .Attr(DTypeAttr("dtype", DType::kInt64), "their dtype")
        .Out("out", "[number of values]", kNumbers)
        .Shape([](ShapeContext& ctx) {
          const OpView& op = ctx.op();
          const double start = op.Float("start"), limit = op.Float("limit"),
                       delta = op.Float("delta");
          const DType dtype = op.DType("dtype");
          OPSTEP_CHECK(kNumbers.Has(dtype), "dtype is ", NameOf(dtype), "; it takes ",
                       kNumbers.Names());
          const double count = std::max(0.0, std::ceil((limit - start) / delta));
          OPSTEP_CHECK(delta != 0.0 && count < 0x1p53, "from ", start, " to ", limit,
                       " in steps of ", delta, " there is no end");
          OPSTEP_CHECK(IsFloat(dtype) || (start == std::trunc(start) && delta == std::trunc(delta)),
                       "start is ", start, " and delta is ", delta, ": for ", NameOf(dtype),
                       " they must be whole numbers");
          for (double end : {start, start + (count > 0 ? count - 1 : 0) * delta}) {
            OPSTEP_CHECK(IsFloat(dtype) || std::fabs(end) < std::ldexp(1.0, 8 * SizeOf(dtype) - 1),
                         end, " is too large for ", NameOf(dtype));
          }
          ctx.set_out(0, {dtype, Dims{static_cast<int64_t>(count)}});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const State state{ctx.op().Float("start"), ctx.op().Float("delta")};
          return DispatchNumbers(ctx.out(0).dtype, [&](auto t) -> Kernel {
            return WithState(Best<Body<decltype(t)>>(), state);
          });
        })
        .Oracle(R"(
n = max(0, int(np.ceil((limit - start) / delta)))
(start + np.arange(n) * delta).astype(dtype)
)")
        .Sample("limit=7")
        .Sample("start=3 limit=40 delta=5 dtype=int32")
        .Sample("start=10 limit=-1 delta=-3")
        .Sample("start=0.5 limit=3 delta=0.25 dtype=float32")
        .Sample("start=1 limit=-1 delta=-0.3 dtype=float64")
        .Sample("start=5 limit=5")
        .Sample("start=5 limit=1")
        .Sample("limit=-5 delta=-1")
        .Register();

}  // namespace
}  // namespace opstep
