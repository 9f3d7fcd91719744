// reduce_prod: the product of the elements along axes, and its gradient.
#include "ops/reduce/reduced_elements.h"

namespace opstep {
namespace {

struct Prod {
  static constexpr Types kTypes = Types::kNumbers;
  static constexpr bool kTakesNothing = true;
  static constexpr bool kFinishes = false;
  template <typename T>
  OPSTEP_INLINE static T Start() {
    return T(1);
  }
  template <typename T>
  OPSTEP_INLINE static T Do(T a, T b) {
    return Times(a, b);
  }
  template <typename T, typename F>
  OPSTEP_INLINE static T Run(int64_t n, F&& at) {
    return FoldRun<T, Prod>(T(1), n, at);
  }
};

template <typename T>
void RunGrad(KernelContext& ctx) {
  const auto& state = ctx.state<ReducedElements>();
  const T* x = ctx.in(0).as<T>();
  const T* d = ctx.in(1).as<T>();
  T* dx = ctx.out(0).as<T>();
  ForEachElement(state.outer, [&](int64_t base) {
    // The product of all others is out / x; not where x is 0, so zeros are counted apart.
    T product = 1;
    int64_t zeros = 0;
    ForEachElement(state.inner, [&](int64_t i) {
      const T value = x[base + i];
      zeros += value == T(0);
      product *= value == T(0) ? T(1) : value;
    });
    const T scaled = *d++ * product;
    ForEachElement(state.inner, [&](int64_t i) {
      const T value = x[base + i];
      const int64_t other_zeros = zeros - (value == T(0));
      dx[base + i] = other_zeros > 0 ? T(0) : value == T(0) ? scaled : scaled / value;
    });
  });
}

const bool kReduceProd =
    ReduceOp("reduce_prod", "The product of the elements along axes.", "the products", kNumbers)
        .Prepare(PrepareReduce<Prod>)
        .Grad([](GradContext& g) { g.EmitGrad("reduce_prod_grad", {"X"}, {}, {"out"}, {"X"}); })
        .Oracle("X.prod(axis=tuple(axes) or None, keepdims=keepdims, dtype=X.dtype)")
        .Sample("X=[3,7]{-3,3}")
        .Sample("X=[4,33]{0.5,1.5} axes=[1] keepdims=False")
        .Sample("X=[9,5]{1,2} axes=[0]")
        .Sample("X=[2,3,4,5]{0.5,1.5} axes=[0,2] keepdims=False")
        .Sample("X=[2,3,4,5]{0.5,1.5} axes=[-1,1]")
        .Sample("X=[3,4]{0,0} axes=[1]")
        .Sample("X=[5,1]{0,0} axes=[1]")
        .Sample("X=[] keepdims=False")
        .Sample("X=[0,3] axes=[0]")
        .Sample("X=[0,3] axes=[1]")
        .Sample("X=float32[9,17]{special} axes=[0]")
        .Register();

const bool kReduceProdGrad =
    ReduceGradOp("reduce_prod_grad",
                 "Gradient of reduce_prod: dout times the product of the other elements.")
        .In("X", "input of the forward op", kFloats)
        .In("dout", "gradient of out", kFloats)
        .Out("dX", "gradient of X", kFloats)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
            return WithState(RunGrad<decltype(t)>, MakeReducedElements(ctx.op(), ctx.in(0).dims));
          });
        })
        .Register();

}  // namespace
}  // namespace opstep
