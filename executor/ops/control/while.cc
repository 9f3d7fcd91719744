// while and repeat: loops that run a block for as long as a condition holds, or a number of times.
#include "ops/control/block_grad.h"
#include "ops/lib/block_shape.h"

namespace opstep {
namespace {

void WhileShape(ShapeContext& ctx) {
  CheckOneElement(ctx.in(0), "condition");
  ctx.set_out(0, {DType::kInt64, {}});
  KeepTypes(ctx, "out", 1, 1, ctx.op().Input("condition"));
}

void RunWhile(KernelContext& ctx) {
  const int block = ctx.state<int>();
  int64_t count = 0;
  // The body writes the condition: it is read again each time.
  for (; *ctx.in(0).as<bool>(); ++count) ctx.RunBlock(block, static_cast<uint64_t>(count));
  if (Tensor& out = ctx.out(0)) *out.as<int64_t>() = count;
}

void RunRepeat(KernelContext& ctx) {
  const int block = ctx.state<int>();
  for (int64_t i = *ctx.in(0).as<int64_t>() - 1; i >= 0; --i)
    ctx.RunBlock(block, static_cast<uint64_t>(i));
}

Kernel WithBlock(const PrepareContext& ctx, KernelFn run) {
  return WithState<int>(run, ctx.op().Block("block"));
}

// The body's gradient is repeated equally often, the last iteration first. Gradients of variables
// that the body overwrites pass from iteration to iteration; gradients of variables that it only
// reads add up.
void WhileGrad(GradContext& g) {
  const int body = g.op().Block("block");
  CarriedGrad carried(g, {body});
  if (carried.empty()) return;
  const std::string count = g.AddOutput("count");
  g.BeginBlock(body);
  carried.Step();
  const int block = g.EndBlock();
  g.Emit("repeat", {{"count", {count}}}, {}, {BlockAttr("block", block)});
}

const bool kWhile =
    Op("while")
        .Doc("Runs a block again and again for as long as a condition holds.")
        .In("condition", "one element; the block must write it", kBools)
        .In("X", "variables from outside that the block reads or writes", kEvery)
        .Captures()
        .Required("block", AttrType::kBlock, "the body")
        .Out("count", "how often the block ran", DTypeSet(DType::kInt64))
        .Optional()
        .Out("out", "variables of X, or the condition, that the block writes", kEvery)
        .Captures()
        .SideEffect()
        .OwnTest()
        .Shape(WhileShape)
        .Prepare([](const PrepareContext& ctx) { return WithBlock(ctx, RunWhile); })
        .Grad(WhileGrad)
        .Register();

const bool kRepeat =
    Op("repeat")
        .Doc("Runs a block a number of times, with iterations counted down to 0.")
        .In("count", "how often", DTypeSet(DType::kInt64))
        .In("X", "variables from outside that the block reads or writes", kEvery)
        .Captures()
        .Required("block", AttrType::kBlock, "the body")
        .Out("out", "variables of X that the block writes", kEvery)
        .Captures()
        .SideEffect()
        .OwnTest()
        .Shape([](ShapeContext& ctx) {
          OPSTEP_CHECK(ctx.in(0).dims.rank() == 0, "count is ", ctx.in(0).dims.ToString(),
                       ": it must be a scalar");
          KeepTypes(ctx, "out", 0, 1);
        })
        .Prepare([](const PrepareContext& ctx) { return WithBlock(ctx, RunRepeat); })
        .Register();

}  // namespace
}  // namespace opstep
