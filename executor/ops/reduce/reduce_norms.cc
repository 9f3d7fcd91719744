// reduce_l1, reduce_sum_square and reduce_l2: sums of absolute values and squares, and a root.
#include "ops/grad/formula.h"
#include "ops/reduce/reduce_map.h"

namespace opstep {
namespace {

struct L1 {
  static constexpr Types kTypes = Types::kNumbers;
  template <typename T>
  OPSTEP_INLINE static T Map(T x) {
    return x < T(0) ? Minus(T(0), x) : x;
  }
  template <typename T>
  OPSTEP_INLINE static T Finish(T sum) {
    return sum;
  }
};

struct SumSquare {
  static constexpr Types kTypes = Types::kNumbers;
  template <typename T>
  OPSTEP_INLINE static T Map(T x) {
    return Times(x, x);
  }
  template <typename T>
  OPSTEP_INLINE static T Finish(T sum) {
    return sum;
  }
};

struct L2 {
  static constexpr Types kTypes = Types::kFloats;
  template <typename T>
  OPSTEP_INLINE static T Map(T x) {
    return x * x;
  }
  template <typename T>
  OPSTEP_INLINE static T Finish(T sum) {
    return std::sqrt(sum);
  }
};

struct L1Grad {
  static constexpr bool kNeedsX = true, kNeedsOut = false;
  template <typename T>
  OPSTEP_INLINE static T Do(T x, [[maybe_unused]] T out, T d) {
    return x > T(0) ? d : x < T(0) ? -d : T(0) * d;
  }
};

struct SumSquareGrad {
  static constexpr bool kNeedsX = true, kNeedsOut = false;
  template <typename T>
  OPSTEP_INLINE static T Do(T x, [[maybe_unused]] T out, T d) {
    return d * (x + x);
  }
};

struct L2Grad {
  static constexpr bool kNeedsX = true, kNeedsOut = true;
  template <typename T>
  OPSTEP_INLINE static T Do(T x, T out, T d) {
    // Where all are 0, no direction is better than another.
    return out == T(0) ? T(0) : d * (x / out);
  }
};

Op WithSamples(Op op) {
  op.Grad(ReduceMapGrad)
      .Sample("X=[3,7]")
      .Sample("X=[4,33] axes=[1] keepdims=False")
      .Sample("X=[33,5] axes=[0]")
      .Sample("X=[2,3,4,5] axes=[0,2] keepdims=False")
      .Sample("X=[2,3,4,5] axes=[-1,1]")
      .Sample("X=[3001] keepdims=False")
      .Sample("X=[] keepdims=False")
      .Sample("X=[0,3] axes=[0]")
      .Sample("X=[0,3] axes=[1]")
      .Sample("X=[1,1] axes=[0]")
      .Sample("X=float32[9,17]{special} axes=[0]");
  return op;
}

const bool kReduceL1 =
    WithSamples(
        ReduceOp("reduce_l1", "The sum of the absolute values along axes.", "the sums", kNumbers))
        .Prepare(PrepareReduceMap<L1>)
        .Oracle("np.abs(X).sum(axis=tuple(axes) or None, keepdims=keepdims, dtype=X.dtype)")
        .Register();

const bool kReduceSumSquare =
    WithSamples(
        ReduceOp("reduce_sum_square", "The sum of the squares along axes.", "the sums", kNumbers))
        .Prepare(PrepareReduceMap<SumSquare>)
        .Oracle("(X * X).sum(axis=tuple(axes) or None, keepdims=keepdims, dtype=X.dtype)")
        .Register();

const bool kReduceL2 =
    WithSamples(ReduceOp("reduce_l2", "The root of the sum of the squares along axes.",
                         "the lengths", kFloats))
        .Prepare(PrepareReduceMap<L2>)
        .Oracle("np.sqrt((X * X).sum(axis=tuple(axes) or None, keepdims=keepdims))")
        .Register();

const bool kReduceL1Grad = RegisterReduceMapGrad<L1Grad>(
    "reduce_l1_grad", "Gradient of reduce_l1: dout with the sign of X.");
const bool kReduceSumSquareGrad = RegisterReduceMapGrad<SumSquareGrad>(
    "reduce_sum_square_grad", "Gradient of reduce_sum_square: dout * 2 * X.", [](GradContext& g) {
      const Term x = In(g, "X");
      FormulaGradient(g, {{"dX", SpreadBack(g, In(g, "dout"), x) * Scaled(x, 2)}}, {"X", "dout"});
    });
const bool kReduceL2Grad = RegisterReduceMapGrad<L2Grad>(
    "reduce_l2_grad", "Gradient of reduce_l2: dout * X / out; 0 where out is 0.",
    [](GradContext& g) {
      const Term x = In(g, "X"), out = In(g, "out");
      // 1 where out is not 0, so that nothing is divided by 0 where it is.
      const Term one = Filled(out, 1), some = WherePositive(out, one);
      const Term dx = SpreadBack(g, In(g, "dout") * some / (out + (one - some)), x) * x;
      FormulaGradient(g, {{"dX", dx}}, {"X", "out", "dout"});
    });

}  // namespace
}  // namespace opstep
