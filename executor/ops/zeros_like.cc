#include <cstring>

#include "ops/op.h"
#include "ops/shape_rules.h"

namespace opstep {
namespace {

const bool kZerosLike = Op("zeros_like")
                            .Doc("Zeros in the shape of another tensor.")
                            .In("X", "any shape; its values are not read", kEvery)
                            .ShapeOnly()
                            .Out("out", "as X, all 0", kEvery)
                            .InplaceOf("X")
                            .Role(OpRole::kZeros)
                            .Shape(OutLikeInput<0>)
                            .Prepare([](const PrepareContext&) -> Kernel {
                              return {[](KernelContext& ctx) {
                                        Tensor& out = ctx.out(0);
                                        if (out.bytes() > 0) std::memset(out.data, 0, out.bytes());
                                      },
                                      nullptr};
                            })
                            .Oracle("np.zeros_like(X)")
                            .Sample("X=[3,7]")
                            .Sample("X=[]")
                            .Sample("X=[0,3]")
                            .Register();

}  // namespace
}  // namespace opstep
