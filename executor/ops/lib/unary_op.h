// The schema of a function of one element and of its gradient: slots, shape rule, samples.
#pragma once

#include "ops/lib/unary.h"

namespace opstep {

// The common definition of functions of one element. The gradient op is named after the function
// and has the forward input or output, and dout.

inline void GradFromX(GradContext& g) {
  g.EmitGrad(g.op().type() + "_grad", {"X"}, {}, {"out"}, {"X"});
}

inline void GradFromOut(GradContext& g) {
  g.EmitGrad(g.op().type() + "_grad", {}, {"out"}, {"out"}, {"X"});
}

// Samples hold values from `range`, "{low,high}", when the function is not defined everywhere.
inline Op UnaryOp(std::string type, std::string doc, std::string result, DTypeSet dtypes = kFloats,
                  const std::string& range = "") {
  Op op(std::move(type));
  op.Doc(std::move(doc))
      .In("X", "any shape", dtypes)
      .Out("out", std::move(result), dtypes)
      .InplaceOf("X")
      .Shape(OutLikeInput<0>)
      .Sample("X=[3,17]" + range)
      .Sample("X=[0,2]")
      .Sample("X=[]" + range)
      .Sample("X=float32[64]{special}")
      .Sample("X=float64[64]{special}");
  return op;
}

// `value` is the slot of the forward op that the gradient is computed from: X or out.
inline Op UnaryGradOp(std::string type, std::string doc, std::string value) {
  Op op(std::move(type));
  op.Doc(std::move(doc))
      .In(std::move(value), "of the forward op", kFloats)
      .In("dout", "gradient of out", kFloats)
      .Out("dX", "gradient of X", kFloats)
      .InplaceOf("dout")
      .Shape(OutLikeInput<0>);
  return op;
}

}  // namespace opstep
