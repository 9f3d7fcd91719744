// assert: ends the run with a message when a condition does not hold.
#include <string>

#include "ops/lib/block_shape.h"
#include "ops/lib/unary.h"

namespace opstep {
namespace {

void Run(KernelContext& ctx) {
  const Tensor& x = ctx.in(0);
  OPSTEP_CHECK(*x.as<bool>(), ctx.state<std::string>());
  CopyValue(x, ctx.out(0));
}

const bool kAssert = Op("assert")
                         .Doc("Ends the run with an error when a condition does not hold.")
                         .In("X", "one element", kBools)
                         .Attr(StringAttr("message", "it does not hold"), "what the error says")
                         .Out("out", "X itself", kBools)
                         .InplaceOf("X")
                         .SideEffect()
                         .OwnTest()
                         .Shape([](ShapeContext& ctx) {
                           CheckOneElement(ctx.in(0), "X");
                           ctx.set_out(0, ctx.in(0));
                         })
                         .Prepare([](const PrepareContext& ctx) {
                           return WithState<std::string>(Run, ctx.op().String("message"));
                         })
                         .Register();

}  // namespace
}  // namespace opstep
