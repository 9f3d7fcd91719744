// fetch: marks a tensor that the caller of a run gets back.
#include "ops/op.h"

namespace opstep {
namespace {

const bool kFetch = Op("fetch")
                        .Doc("Marks a tensor that the caller of a run gets back.")
                        .In("X", "the tensor", kEvery)
                        .Required("name", AttrType::kString, "the name that the caller uses")
                        .SideEffect()
                        .OwnTest()
                        .Shape([](ShapeContext&) {})
                        // The frame takes the tensor after the run.
                        .Prepare([](const PrepareContext&) -> Kernel {
                          return {[](KernelContext&) {}, nullptr};
                        })
                        .Register();

}  // namespace
}  // namespace opstep
