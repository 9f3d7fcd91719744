// cond: runs one of two blocks and gives its results; the gradient is a cond again.
#include <set>

#include "ops/control/block_grad.h"
#include "ops/lib/block_shape.h"

namespace opstep {
namespace {

struct State {
  int true_block;
  int false_block;
  int n_captured;
  int n_results;
};

void Shape(ShapeContext& ctx) {
  CheckOneElement(ctx.in(0), "condition");
  const Names results = ctx.op().Inputs("true_results");
  const int n = CountOf(results), first = 1 + CountOf(ctx.op().Inputs("X"));
  OPSTEP_CHECK(
      n == CountOf(ctx.op().Inputs("false_results")) && n == CountOf(ctx.op().Outputs("out")),
      "the true block gives ", n, " results, the false block ",
      CountOf(ctx.op().Inputs("false_results")), ", and there are ",
      CountOf(ctx.op().Outputs("out")), " outputs: the numbers must be equal");
  for (int i = 0; i < n; ++i) {
    const VarType& yes = ctx.in(first + i);
    if (yes.dtype == DType::kNone) continue;  // the blocks have not been inferred yet
    ctx.set_out(i, Merged(yes, ctx.in(first + n + i), Cat("result ", i)));
  }
  KeepTypes(ctx, "written", n, 1);
}

void Run(KernelContext& ctx) {
  const State& s = ctx.state<State>();
  const bool yes = *ctx.in(0).as<bool>();
  ctx.RunBlock(yes ? s.true_block : s.false_block, 0);
  const int first = 1 + s.n_captured + (yes ? 0 : s.n_results);
  for (int i = 0; i < s.n_results; ++i) CopyValue(ctx.in(first + i), ctx.out(i));
}

// The same condition selects the gradient of one of the two blocks.
void Grad(GradContext& g) {
  RefuseWritten(g);
  const Names x = g.op().Inputs("X");
  const Names plain = PlainNames(x);
  const int blocks[2] = {g.op().Block("true_block"), g.op().Block("false_block")};
  const Names results[2] = {PlainNames(g.op().Inputs("true_results")),
                            PlainNames(g.op().Inputs("false_results"))};
  std::vector<std::pair<std::string, std::string>> seeds[2];
  std::set<std::string> reached;
  for (int b = 0; b < 2; ++b) {
    Names ends;
    for (size_t i = 0; i < results[b].size(); ++i) {
      const std::string gradient = g.OutGrad("out", static_cast<int>(i));
      if (gradient.empty()) continue;
      seeds[b].emplace_back(results[b][i], gradient);
      ends.push_back(results[b][i]);
    }
    for (const std::string& name : g.Reached(blocks[b], ends)) reached.insert(name);
  }
  Names wanted, gradients;
  for (size_t i = 0; i < x.size(); ++i) {
    if (reached.count(plain[i]) == 0) continue;
    const std::string gradient = g.InGrad("X", static_cast<int>(i));
    if (gradient.empty()) continue;
    wanted.push_back(x[i]);
    gradients.push_back(gradient);
  }
  if (wanted.empty()) return;
  int made[2];
  Names found[2];
  for (int b = 0; b < 2; ++b) {
    g.BeginBlock(blocks[b]);
    found[b] = g.Differentiate(seeds[b], wanted);
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (found[b][i].empty()) found[b][i] = g.Zeros(wanted[i]);
    }
    made[b] = g.EndBlock();
  }
  g.Emit("cond",
         {{"condition", g.op().Inputs("condition")},
          {"true_results", found[0]},
          {"false_results", found[1]}},
         {{"out", gradients}},
         {BlockAttr("true_block", made[0]), BlockAttr("false_block", made[1])});
}

const bool kCond = Op("cond")
                       .Doc("Runs one of two blocks and gives its results.")
                       .In("condition", "one element: which block", kBools)
                       .In("X", "variables from outside that the blocks read or write", kEvery)
                       .Captures()
                       .In("true_results", "of the true block", kEvery)
                       .Variadic()
                       .OfBlock("true_block")
                       .In("false_results", "of the false block, the same number and types", kEvery)
                       .Variadic()
                       .OfBlock("false_block")
                       .Required("true_block", AttrType::kBlock, "runs when the condition holds")
                       .Required("false_block", AttrType::kBlock, "runs when it does not")
                       .Out("out", "the results of the block that ran", kEvery)
                       .Variadic()
                       .Out("written", "variables of X that the blocks write", kEvery)
                       .Captures()
                       .SideEffect()
                       .OwnTest()
                       .Shape(Shape)
                       .Prepare([](const PrepareContext& ctx) -> Kernel {
                         const OpView& op = ctx.op();
                         return WithState<State>(
                             Run, {op.Block("true_block"), op.Block("false_block"),
                                   CountOf(op.Inputs("X")), CountOf(op.Inputs("true_results"))});
                       })
                       .Grad(Grad)
                       .Register();

}  // namespace
}  // namespace opstep
