#include <algorithm>

#include "ops/op.h"

namespace opstep {
namespace {

void Shape(ShapeContext& ctx) {
  const Dims& condition = ctx.in(0).dims;
  OPSTEP_CHECK(!condition.known() || condition.numel() == 1, "condition is ", condition.ToString(),
               ": it must have one element");
  // What the body writes are variables that exist already: they stay as they are.
  const Names inputs = ctx.op().Inputs("X");
  const Names outputs = ctx.op().Outputs("out");
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto same = std::find(inputs.begin(), inputs.end(), outputs[i]);
    if (same != inputs.end()) {
      ctx.set_out(static_cast<int>(i), ctx.in(1 + static_cast<int>(same - inputs.begin())));
    } else {
      OPSTEP_CHECK(outputs[i] == ctx.op().Input("condition"), "out names '", outputs[i],
                   "', which is not in X: what the block writes must be there before");
      ctx.set_out(static_cast<int>(i), ctx.in(0));
    }
  }
}

void Run(KernelContext& ctx) {
  const int block = ctx.state<int>();
  // The body writes the condition: it is read anew each time.
  for (uint64_t i = 0; *ctx.in(0).as<bool>(); ++i) ctx.RunBlock(block, i);
}

const bool kWhile =
    Op("while")
        .Doc("Runs a block again and again for as long as a condition holds.")
        .In("condition", "one element; the block must write it", kBools)
        .In("X", "variables from outside that the block reads or writes", kEvery)
        .Variadic()
        .Required("block", AttrType::kBlock, "the body")
        .Out("out", "variables of X, or the condition, that the block writes", kEvery)
        .Variadic()
        .SideEffect()
        .OwnTest()
        .Shape(Shape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return WithState<int>(Run, ctx.op().Block("block"));
        })
        .Register();

}  // namespace
}  // namespace opstep
