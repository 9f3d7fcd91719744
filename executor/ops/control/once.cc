// once: a block that runs in a program's first run in a scope, for initial values.
#include "ops/lib/block_shape.h"

namespace opstep {
namespace {

void Shape(ShapeContext& ctx) {
  CheckOneElement(ctx.in(0), "done");
  ctx.set_out(0, ctx.in(0));
  KeepTypes(ctx, "out", 1, 1);
}

// For a new scope the frame has set `done` to false. It is set only when the block ran to its end.
void Run(KernelContext& ctx) {
  if (*ctx.in(0).as<bool>()) return;
  ctx.RunBlock(ctx.state<int>(), 0);
  *ctx.out(0).as<bool>() = true;
}

const bool kOnce =
    Op("once")
        .Doc(
            "Runs its block in the first run of the program in a scope, and never again: how a "
            "program gives its parameters their first values by itself.")
        .In("done", "a persistable variable with one element: has the block run?", kBools)
        .In("X", "variables from outside that the block reads or writes", kEvery)
        .Captures()
        .Required("block", AttrType::kBlock, "the ops to run once")
        .Out("done_out", "done", kBools)
        .InplaceOf("done")
        .Out("out", "variables of X that the block writes", kEvery)
        .Captures()
        .Role(OpRole::kOnce)
        .SideEffect()
        .OwnTest()
        .Shape(Shape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          OPSTEP_CHECK(ctx.op().Input("done") == ctx.op().Output("done_out"), "done_out is '",
                       ctx.op().Output("done_out"), "' but must be done, '", ctx.op().Input("done"),
                       "'");
          return WithState<int>(Run, ctx.op().Block("block"));
        })
        // First values depend on nothing, so no gradient goes further.
        .Grad([](GradContext&) {})
        .Register();

}  // namespace
}  // namespace opstep
