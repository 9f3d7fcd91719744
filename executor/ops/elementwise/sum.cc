// sum: any number of tensors of one shape added up from left to right.
#include "ops/grad/terms.h"
#include "ops/lib/dispatch.h"
#include "ops/lib/numeric.h"
#include "ops/lib/shape_rules.h"
#include "ops/lib/unary.h"
#include "ops/op.h"

namespace opstep {
namespace {

template <typename T>
struct Body {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    T* out = ctx.out(0).as<T>();
    const int64_t n = ctx.out(0).numel;
    const T* first = ctx.in(0).as<T>();
    if (ctx.n_in() == 1) {
      if (out != first) std::copy_n(first, n, out);
      return;
    }
    for (int k = 1; k < ctx.n_in(); ++k) {
      const T* left = k == 1 ? first : out;
      const T* right = ctx.in(k).as<T>();
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = Plus(left[i], right[i]);
    }
  }
};

const bool kSum =
    Op("sum")
        .Doc("The sum of any number of tensors of one shape, from left to right.")
        .In("X", "the tensors", kNumbers)
        .Variadic()
        .Out("out", "their sum", kNumbers)
        .Role(OpRole::kSum)
        .Shape([](ShapeContext& ctx) {
          OPSTEP_CHECK(ctx.n_in() > 0, "X is empty: there must be something to add up");
          VarType type = ctx.in(0);
          for (int i = 1; i < ctx.n_in(); ++i) {
            const VarType& other = ctx.in(i);
            OPSTEP_CHECK(type.dtype == other.dtype && ShapesAgree(type.dims, other.dims),
                         "X[0] is ", type.ToString(), " but X[", i, "] is ", other.ToString(),
                         ": all of X must be alike");
            for (int d = 0; d < type.dims.rank(); ++d) {
              if (type.dims[d] < 0) type.dims[d] = other.dims[d];
            }
          }
          ctx.set_out(0, type);
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchNumbers(ctx.in(0).dtype, [](auto t) {
            return Kernel{Best<Body<decltype(t)>>(), nullptr};
          });
        })
        .Grad([](GradContext& g) {
          const int n = static_cast<int>(g.op().Inputs("X").size());
          for (int i = 0; i < n; ++i) {
            if (g.InGrad("X", i).empty()) continue;
            g.Emit("sum_grad", {{"dout", {g.OutGrad("out")}}}, {{"dX", {g.InGrad("X", i)}}});
          }
        })
        .Oracle("sum(X[1:], X[0])")
        .Sample("X=[3,7] X=[3,7]")
        .Sample("X=[5]")
        .Sample("X=[] X=[] X=[]")
        .Sample("X=[2,19] X=[2,19] X=[2,19] X=[2,19]")
        .Sample("X=[0] X=[0]")
        .Register();

const bool kSumGrad = Op("sum_grad")
                          .Doc("Gradient of sum for one of its inputs: dout itself.")
                          .In("dout", "gradient of out", kAllFloats)
                          .Out("dX", "gradient of the input", kAllFloats)
                          .InplaceOf("dout")
                          .Unchanged()
                          .Shape(OutLikeInput<0>)
                          .Prepare(PrepareCopy<0>)
                          .Grad(FlatGradient)
                          .Register();

}  // namespace
}  // namespace opstep
