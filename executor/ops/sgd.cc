#include "ops/dispatch.h"
#include "ops/op.h"
#include "ops/shape_rules.h"
#include "ops/simd.h"

namespace opstep {
namespace {

template <typename T>
struct Body {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const T* param = ctx.in(0).as<T>();
    const T* grad = ctx.in(1).as<T>();
    const T rate = *ctx.in(2).as<T>();
    T* out = ctx.out(0).as<T>();
    const int64_t n = ctx.out(0).numel;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = param[i] - rate * grad[i];
  }
};

const bool kSgd =
    Op("sgd")
        .Doc("One step of gradient descent: param - lr * grad.")
        .In("param", "a parameter", kFloats)
        .In("grad", "its gradient", kFloats)
        .In("lr", "learning rate, one element", kFloats)
        .Out("param_out", "the parameter after the step", kFloats)
        .InplaceOf("param")
        .Shape([](ShapeContext& ctx) {
          const VarType& param = ctx.in(0);
          CheckSameDType(param, "param", ctx.in(1), "grad");
          CheckSameDType(param, "param", ctx.in(2), "lr");
          OPSTEP_CHECK(ShapesAgree(param.dims, ctx.in(1).dims), "param is ", param.dims.ToString(),
                       " but grad is ", ctx.in(1).dims.ToString(), ": they must be alike");
          const Dims& lr = ctx.in(2).dims;
          OPSTEP_CHECK(!lr.known() || lr.numel() == 1, "lr is ", lr.ToString(),
                       ": it must have one element");
          ctx.set_out(0, param);
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchFloats(ctx.in(0).dtype, [](auto t) {
            return Kernel{Best<Body<decltype(t)>>(), nullptr};
          });
        })
        .Oracle("param - lr * grad")
        .Sample("param=[5,7] grad=[5,7] lr=[1]")
        .Sample("param=[33] grad=[33] lr=[]")
        .Sample("param=[0,3] grad=[0,3] lr=[1]")
        .Register();

}  // namespace
}  // namespace opstep
