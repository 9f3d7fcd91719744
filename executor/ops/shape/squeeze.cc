// squeeze, unsqueeze and flatten: remove or insert axes of size 1, or turn all axes into two.
// The elements stay as they are.
#include "ops/grad/same_elements_grad.h"
#include "ops/grad/terms.h"
#include "ops/lib/shape_rules.h"
#include "ops/lib/unary.h"

namespace opstep {
namespace {

std::vector<bool> AxesIn(const std::vector<int64_t>& axes, const Dims& dims,
                         std::string_view name) {
  std::vector<bool> in(dims.rank());
  for (int64_t axis : axes) {
    const int a = NormalizeAxis(axis, dims, name);
    OPSTEP_CHECK(!in[a], "axes names axis ", axis, " twice");
    in[a] = true;
  }
  return in;
}

void SqueezeShape(ShapeContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  const std::vector<int64_t> axes = ctx.op().Ints("axes");
  OPSTEP_CHECK(!axes.empty() || x.known(), "X is ", x.ToString(),
               ": name the axes, because an unknown size may turn out to be 1");
  const std::vector<bool> given = AxesIn(axes, x, "X");
  Dims out;
  for (int i = 0; i < x.rank(); ++i) {
    OPSTEP_CHECK(!given[i] || SizesAgree(x[i], 1), "X is ", x.ToString(), ": axis ", i,
                 " has size ", x[i], " and cannot be taken out");
    if (!(axes.empty() ? x[i] == 1 : given[i])) out.push_back(x[i]);
  }
  ctx.set_out(0, {ctx.in(0).dtype, out});
}

void UnsqueezeShape(ShapeContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  const std::vector<int64_t> axes = ctx.op().Ints("axes");
  Dims out = x;
  for (size_t i = 0; i < axes.size(); ++i) out.push_back(1);
  const std::vector<bool> given = AxesIn(axes, out, "out");
  int next = 0;
  for (int i = 0; i < out.rank(); ++i) out[i] = given[i] ? 1 : x[next++];
  ctx.set_out(0, {ctx.in(0).dtype, out});
}

void FlattenShape(ShapeContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  int64_t axis = ctx.op().Int("axis");
  OPSTEP_CHECK(axis >= -x.rank() && axis <= x.rank(), "axis ", axis, " is outside X, which is ",
               x.ToString());
  axis += axis < 0 ? x.rank() : 0;
  Dims out{1, 1};
  for (int i = 0; i < x.rank(); ++i) {
    int64_t& size = out[i < axis ? 0 : 1];
    size = size < 0 || x[i] < 0 ? -1 : size * x[i];
  }
  ctx.set_out(0, {ctx.in(0).dtype, out});
}

const bool kSqueeze =
    Op("squeeze")
        .Doc("Takes out axes of size 1.")
        .In("X", "any shape", kEvery)
        .Attr(IntsAttr("axes", {}),
              "the axes, negative ones from the end; none means all that have size 1")
        .Out("out", "the elements of X", kEvery)
        .InplaceOf("X")
        .Unchanged()
        .Shape(SqueezeShape)
        .Prepare(PrepareCopy<0>)
        .Grad([](GradContext& g) { g.EmitGrad("squeeze_grad", {"X"}, {}, {"out"}, {"X"}); })
        .Oracle("np.squeeze(X, tuple(axes) or None)")
        .Sample("X=[3,1,5] axes=[1]")
        .Sample("X=[1,3,1,2,1] axes=[-1,0]")
        .Sample("X=[1] axes=[0]")
        .Sample("X=[0,1] axes=[1]")
        .Sample("X=[]")
        .Register();

const bool kUnsqueeze =
    Op("unsqueeze")
        .Doc("Puts in axes of size 1.")
        .In("X", "any shape", kEvery)
        .Required("axes", AttrType::kInts, "where they are in out; negative ones from the end")
        .Out("out", "the elements of X", kEvery)
        .InplaceOf("X")
        .Unchanged()
        .Shape(UnsqueezeShape)
        .Prepare(PrepareCopy<0>)
        .Grad([](GradContext& g) { g.EmitGrad("unsqueeze_grad", {"X"}, {}, {"out"}, {"X"}); })
        .Oracle("np.expand_dims(X, tuple(axes))")
        .Sample("X=[3,5] axes=[0]")
        .Sample("X=[3,5] axes=[-1,1]")
        .Sample("X=[] axes=[0]")
        .Sample("X=[0] axes=[2,0]")
        .Sample("X=[4] axes=[]")
        .Register();

const bool kFlatten =
    Op("flatten")
        .Doc("A matrix: the axes before `axis` become its rows, the others its columns.")
        .In("X", "any shape", kEvery)
        .Attr(IntAttr("axis", 1), "from 0 to the number of axes; negative from the end")
        .Out("out", "the elements of X, [rows, columns]", kEvery)
        .InplaceOf("X")
        .Unchanged()
        .Shape(FlattenShape)
        .Prepare(PrepareCopy<0>)
        .Grad([](GradContext& g) { g.EmitGrad("flatten_grad", {"X"}, {}, {"out"}, {"X"}); })
        .Oracle(R"(
cut = axis + X.ndim if axis < 0 else axis
X.reshape(np.prod(X.shape[:cut], dtype=int), np.prod(X.shape[cut:], dtype=int))
)")
        .Sample("X=[2,3,4]")
        .Sample("X=[2,3,4] axis=0")
        .Sample("X=[2,3,4] axis=3")
        .Sample("X=[2,3,4,5] axis=-2")
        .Sample("X=[7]")
        .Sample("X=[] axis=0")
        .Sample("X=[3,0,2] axis=2")
        .Register();

bool RegisterGrad(std::string type, const std::string& forward) {
  return Op(std::move(type))
      .Doc("Gradient of " + forward + ": dout in the shape of X.")
      .In("X", "input of " + forward, kAllFloats)
      .ShapeOnly()
      .In("dout", "gradient of out", kAllFloats)
      .Out("dX", "gradient of X", kAllFloats)
      .InplaceOf("dout")
      .Unchanged()
      .Shape(SameElementsGrad)
      .Prepare(PrepareCopy<1>)
      .Grad(ReshapedGradient)
      .Register();
}

const bool kSqueezeGrad = RegisterGrad("squeeze_grad", "squeeze");
const bool kUnsqueezeGrad = RegisterGrad("unsqueeze_grad", "unsqueeze");
const bool kFlattenGrad = RegisterGrad("flatten_grad", "flatten");

}  // namespace
}  // namespace opstep
