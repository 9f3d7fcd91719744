// switch: runs the block of the first condition that holds.
#include "ops/control/block_grad.h"
#include "ops/lib/block_shape.h"

namespace opstep {
namespace {

struct State {
  std::vector<int> blocks;
  int n_conditions;
};

void Shape(ShapeContext& ctx) {
  const int n = CountOf(ctx.op().Inputs("conditions"));
  const int blocks = static_cast<int>(ctx.op().Blocks().size());
  OPSTEP_CHECK(blocks == n || blocks == n + 1, "there are ", n, " conditions and ", blocks,
               " blocks: each condition needs a block, and one more is for all other cases");
  for (int i = 0; i < n; ++i) CheckOneElement(ctx.in(i), Cat("condition ", i));
  KeepTypes(ctx, "out", 0, n);
}

void Run(KernelContext& ctx) {
  const State& s = ctx.state<State>();
  int chosen = 0;
  while (chosen < s.n_conditions && !*ctx.in(chosen).as<bool>()) ++chosen;
  if (chosen < static_cast<int>(s.blocks.size())) ctx.RunBlock(s.blocks[chosen], 0);
}

// The same conditions select the gradient of one of the blocks.
void Grad(GradContext& g) {
  CarriedGrad carried(g, g.op().Blocks());
  if (carried.empty()) return;
  std::vector<int> blocks;
  for (const int block : g.op().Blocks()) {
    g.BeginBlock(block);
    carried.Step();
    blocks.push_back(g.EndBlock());
  }
  g.Emit("switch", {{"conditions", g.op().Inputs("conditions")}}, {},
         {BlocksAttr("blocks", blocks)});
}

const bool kSwitch =
    Op("switch")
        .Doc("Runs the block of the first condition that holds.")
        .In("conditions", "one element each", kBools)
        .Variadic()
        .In("X", "variables from outside that the blocks read or write", kEvery)
        .Captures()
        .Required("blocks", AttrType::kBlocks,
                  "one for each condition; one more runs when no condition holds")
        .Out("out", "variables of X that the blocks write", kEvery)
        .Captures()
        .SideEffect()
        .OwnTest()
        .Shape(Shape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return WithState<State>(Run, {ctx.op().Blocks(), CountOf(ctx.op().Inputs("conditions"))});
        })
        .Grad(Grad)
        .Register();

}  // namespace
}  // namespace opstep
