// feed: a tensor that the caller of a run hands in.
#include "ops/op.h"

namespace opstep {
namespace {

const bool kFeed = Op("feed")
                       .Doc("Stands for a tensor that the caller of a run hands in.")
                       .Required("name", AttrType::kString, "the name that the caller uses")
                       .Required("dtype", AttrType::kDType, "what the caller must hand in")
                       .Required("shape", AttrType::kInts, "its sizes; -1 for any size")
                       .Out("out", "the tensor", kEvery)
                       .Role(OpRole::kFeed)
                       .SideEffect()
                       .OwnTest()
                       .Shape([](ShapeContext& ctx) {
                         ctx.set_out(0, {ctx.op().DType("dtype"), Dims(ctx.op().Ints("shape"))});
                       })
                       // The frame has bound the caller's memory before the run.
                       .Prepare([](const PrepareContext&) -> Kernel {
                         return {[](KernelContext&) {}, nullptr};
                       })
                       .Register();

}  // namespace
}  // namespace opstep
