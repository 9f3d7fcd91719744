// assign: a copy of a tensor.
#include "ops/lib/unary.h"

namespace opstep {
namespace {

const bool kAssign =
    Op("assign")
        .Doc("Copies a tensor.")
        .In("X", "any shape", kEvery)
        .Out("out", "as X", kEvery)
        .InplaceOf("X")
        .Unchanged()
        .Role(OpRole::kCopy)
        .Shape(OutLikeInput<0>)
        .Prepare(PrepareCopy<0>)
        .Grad([](GradContext& g) {
          g.Emit("assign", {{"X", {g.OutGrad("out")}}}, {{"out", {g.InGrad("X")}}});
        })
        .Oracle("X")
        .Sample("X=[3,7]")
        .Sample("X=[]")
        .Sample("X=[0,3]")
        .Register();

}  // namespace
}  // namespace opstep
