// reshape: the same elements in another shape, and its gradient.
#include "ops/grad/same_elements_grad.h"
#include "ops/grad/terms.h"
#include "ops/lib/shape_rules.h"
#include "ops/lib/unary.h"

namespace opstep {
namespace {

void Shape(ShapeContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  const std::vector<int64_t> wanted = ctx.op().Ints("shape");
  const std::string as = Dims(wanted).ToString();
  Dims out;
  int rest = -1;
  for (size_t i = 0; i < wanted.size(); ++i) {
    int64_t size = wanted[i];
    const int axis = static_cast<int>(i);
    OPSTEP_CHECK(size >= -1, "shape holds ", size, ": sizes are 0 or more, or -1 for the rest");
    if (size == 0) {
      OPSTEP_CHECK(axis < x.rank(), "shape takes over axis ", axis, " of X (0), but X is ",
                   x.ToString());
      size = x[axis];
    } else if (size == -1) {
      OPSTEP_CHECK(rest < 0, "shape holds -1 twice: only one size can be the rest");
      rest = axis;
    }
    out.push_back(size);
  }
  if (x.known()) {
    const int64_t have = x.numel();
    if (rest >= 0) {
      out[rest] = 1;
      const int64_t others = out.numel();
      OPSTEP_CHECK(others > 0 ? have % others == 0 : have == 0, "X is ", x.ToString(), " with ",
                   have, " elements: they cannot be shaped ", as);
      out[rest] = others > 0 ? have / others : 0;
    }
    OPSTEP_CHECK(out.numel() == have, "X is ", x.ToString(), " with ", have, " elements but shape ",
                 as, " has ", out.numel());
  }
  ctx.set_out(0, {ctx.in(0).dtype, out});
}

const bool kReshape =
    Op("reshape")
        .Doc("The same elements in another shape.")
        .In("X", "any shape", kEvery)
        .Required("shape", AttrType::kInts,
                  "the sizes: 0 takes over that of X, one -1 stands for what is left")
        .Out("out", "the elements of X", kEvery)
        .InplaceOf("X")
        .Unchanged()
        .Shape(Shape)
        .Prepare(PrepareCopy<0>)
        .Grad([](GradContext& g) { g.EmitGrad("reshape_grad", {"X"}, {}, {"out"}, {"X"}); })
        .Oracle("X.reshape([X.shape[i] if s == 0 else s for i, s in enumerate(shape)])")
        .Sample("X=[3,4] shape=[2,6]")
        .Sample("X=[3,4,5] shape=[0,-1]")
        .Sample("X=[7] shape=[-1,1]")
        .Sample("X=[1,1] shape=[]")
        .Sample("X=[] shape=[1]")
        .Sample("X=[0,4] shape=[0,2,2]")
        .Register();

const bool kReshapeGrad = Op("reshape_grad")
                              .Doc("Gradient of reshape: dout in the shape of X.")
                              .In("X", "input of reshape", kAllFloats)
                              .ShapeOnly()
                              .In("dout", "gradient of out", kAllFloats)
                              .Out("dX", "gradient of X", kAllFloats)
                              .InplaceOf("dout")
                              .Unchanged()
                              .Shape(SameElementsGrad)
                              .Prepare(PrepareCopy<1>)
                              .Grad(ReshapedGradient)
                              .Register();

}  // namespace

Term ShapedAs(const Term& x, const Term& like) {
  return x ? Term("reshape_grad", {{"X", {like}}, {"dout", {x}}}, "dX") : x;
}

}  // namespace opstep
