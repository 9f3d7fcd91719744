// reduce_log_sum and reduce_log_sum_exp: logarithms of sums, and their gradients.
#include "ops/grad/formula.h"
#include "ops/lib/elementary_functions.h"
#include "ops/reduce/reduce_map.h"

namespace opstep {
namespace {

struct LogSum {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Map(T x) {
    return x;
  }
  template <typename T>
  OPSTEP_INLINE static T Finish(T sum) {
    return Log(sum);
  }
};

struct LogSumGrad {
  static constexpr bool kNeedsX = false, kNeedsOut = true;
  template <typename T>
  OPSTEP_INLINE static T Do([[maybe_unused]] T x, T out, T d) {
    return d * Exp(-out);
  }
};

struct Larger {
  template <typename T>
  OPSTEP_INLINE static T Do(T a, T b) {
    return MaxOf(a, b);
  }
};

struct LogSumExp {
  static constexpr Types kTypes = Types::kFloats;
  static constexpr bool kTakesNothing = true;
  static constexpr bool kFinishes = false;
  template <typename T>
  OPSTEP_INLINE static T Start() {
    return -std::numeric_limits<T>::infinity();
  }
  // log(exp(a) + exp(b)).
  template <typename T>
  OPSTEP_INLINE static T Do(T a, T b) {
    // Equal infinities have no difference.
    const T distance = a == b ? T(0) : std::fabs(a - b);
    return MaxOf(a, b) + Log1pExp(-distance);
  }
  template <typename T, typename F>
  OPSTEP_INLINE static T Run(int64_t n, F&& at) {
    const T largest = FoldRun<T, Larger>(Start<T>(), n, at);
    // An infinity cannot be subtracted, and need not be.
    const T shift = largest - largest == T(0) ? largest : T(0);
    return shift +
           Log(SumRun<T>(n, [&](int64_t i) OPSTEP_INLINE_LAMBDA { return Exp(at(i) - shift); }));
  }
};

struct LogSumExpGrad {
  static constexpr bool kNeedsX = true, kNeedsOut = true;
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T out, T d) {
    return d * Exp(x - out);
  }
};

const bool kReduceLogSum =
    ReduceOp("reduce_log_sum", "The logarithm of the sum of the elements along axes.",
             "log(sum(X))", kFloats)
        .Prepare(PrepareReduceMap<LogSum>)
        .Grad(ReduceMapGrad)
        .Oracle("np.log(X.sum(axis=tuple(axes) or None, keepdims=keepdims))")
        .Sample("X=[3,7]{0.1,2}")
        .Sample("X=[4,33]{0.1,2} axes=[1] keepdims=False")
        .Sample("X=[33,5]{0.1,2} axes=[0]")
        .Sample("X=[2,3,4,5]{0.1,2} axes=[0,2] keepdims=False")
        .Sample("X=[]{0.1,2} keepdims=False")
        .Sample("X=[0,3] axes=[0]")
        .Sample("X=[0,3] axes=[1]")
        .Sample("X=float32[9,17]{special} axes=[0]")
        .Register();

const bool kReduceLogSumExp =
    ReduceOp("reduce_log_sum_exp",
             "The logarithm of the sum of the exponentials along axes; large elements do no harm.",
             "log(sum(exp(X)))", kFloats)
        .Prepare(PrepareReduce<LogSumExp>)
        .Grad(ReduceMapGrad)
        .Oracle(R"(
axis = tuple(axes) or None
top = X.max(axis=axis, keepdims=True, initial=-np.inf)
top = np.where(np.isinf(top), X.dtype.type(0), top)
sums = np.exp(X - top).sum(axis=axis, keepdims=True)
out = top + np.log(sums)
out if keepdims else out.sum(axis=axis)
)")
        .Sample("X=[3,7]")
        .Sample("X=[4,33]{-9,9} axes=[1] keepdims=False")
        .Sample("X=[33,5]{-9,9} axes=[0]")
        .Sample("X=[2,3,4,5] axes=[0,2] keepdims=False")
        .Sample("X=[2,3,4,5] axes=[-1,1]")
        .Sample("X=[3,40]{-300,300} axes=[1]")
        .Sample("X=[40,3]{-300,300} axes=[0]")
        .Sample("X=[3001,2] axes=[0]")
        .Sample("X=[] keepdims=False")
        .Sample("X=[0,3] axes=[0]")
        .Sample("X=[0,3] axes=[1]")
        .Sample("X=float32[9,17]{special} axes=[0]")
        .Sample("X=float32[17,37]{special} axes=[1]")
        .Sample("X=float32[13,1]{special} axes=[1]")
        .Register();

const bool kReduceLogSumGrad = RegisterReduceMapGrad<LogSumGrad>(
    "reduce_log_sum_grad", "Gradient of reduce_log_sum: dout / exp(out).", [](GradContext& g) {
      const Term dx = SpreadBack(g, In(g, "dout") / ExpOf(In(g, "out")), In(g, "X"));
      FormulaGradient(g, {{"dX", dx}}, {"out", "dout"});
    });
const bool kReduceLogSumExpGrad = RegisterReduceMapGrad<LogSumExpGrad>(
    "reduce_log_sum_exp_grad", "Gradient of reduce_log_sum_exp: dout * exp(X - out).",
    [](GradContext& g) {
      const Term x = In(g, "X");
      const Term share = ExpOf(x - SpreadBack(g, In(g, "out"), x));
      FormulaGradient(g, {{"dX", SpreadBack(g, In(g, "dout"), x) * share}}, {"X", "out", "dout"});
    });

}  // namespace
}  // namespace opstep
