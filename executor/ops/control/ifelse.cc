// ifelse: splits rows by a condition, runs a block on each part and merges the results.
#include <set>

#include "ops/control/block_grad.h"
#include "ops/lib/block_shape.h"

namespace opstep {
namespace {

// The two blocks, and the first variable of each slot.
struct State {
  int block[2];
  int n_inputs, n_results;
  int results[2];  // among the inputs
  int handed[2];   // among the outputs
  int out;

  explicit State(const OpView& op)
      : block{op.Block("true_block"), op.Block("false_block")},
        n_inputs(CountOf(op.Inputs("inputs"))),
        n_results(CountOf(op.Inputs("true_results"))) {
    results[0] = 1 + n_inputs + CountOf(op.Inputs("X"));
    results[1] = results[0] + n_results;
    handed[0] = 0;
    handed[1] = n_inputs;
    out = 2 * n_inputs;
  }
};

void Shape(ShapeContext& ctx) {
  const State s(ctx.op());
  const Dims& condition = ctx.in(0).dims;
  OPSTEP_CHECK(condition.rank() == 1 || (condition.rank() == 2 && condition[1] == 1),
               "condition is ", condition.ToString(), ": it must be [rows] or [rows, 1]");
  OPSTEP_CHECK(s.n_results == CountOf(ctx.op().Inputs("false_results")), "the true block gives ",
               s.n_results, " results, the false block ", CountOf(ctx.op().Inputs("false_results")),
               ": the numbers must be equal");
  CheckCount(ctx.op(), "true_inputs", s.n_inputs);
  CheckCount(ctx.op(), "false_inputs", s.n_inputs);
  CheckCount(ctx.op(), "out", s.n_results);
  int64_t rows = condition[0];
  for (int i = 0; i < s.n_inputs; ++i) {
    const VarType& type = ctx.in(1 + i);
    OPSTEP_CHECK(type.dims.rank() > 0, "input ", i, " is a scalar: it must have rows");
    OPSTEP_CHECK(type.dims[0] < 0 || rows < 0 || type.dims[0] == rows, "input ", i, " has ",
                 type.dims[0], " rows but the condition has ", rows);
    if (rows < 0) rows = type.dims[0];
    for (const int first : s.handed) ctx.set_out(first + i, type);
  }
  for (int i = 0; i < s.n_results; ++i) {
    const VarType& yes = ctx.in(s.results[0] + i);
    if (yes.dtype == DType::kNone) continue;  // the blocks have not been inferred yet
    VarType type = Merged(yes, ctx.in(s.results[1] + i), Cat("result ", i));
    OPSTEP_CHECK(type.dims.rank() > 0 && (type.dims[0] < 0 || rows < 0 || type.dims[0] == rows),
                 "result ", i, " is ", type.ToString(), ": it must have a row for each row of the ",
                 "inputs");
    type.dims[0] = rows;
    ctx.set_out(s.out + i, type);
  }
  KeepTypes(ctx, "written", s.out + s.n_results, 1 + s.n_inputs);
}

// Calls f(place among the chosen, row).
template <typename F>
void ForEachRow(const bool* condition, int64_t rows, bool which, F&& f) {
  int64_t at = 0;
  for (int64_t row = 0; row < rows; ++row) {
    if (condition[row] == which) f(at++, row);
  }
}

void Run(KernelContext& ctx) {
  const State& s = ctx.state<State>();
  const int64_t rows = ctx.in(0).dims[0];
  // A copy: a debugger may change it while a block runs.
  const auto copy = std::make_unique<bool[]>(static_cast<size_t>(rows));
  const bool* condition = copy.get();
  std::copy_n(ctx.in(0).as<bool>(), rows, copy.get());
  for (int b = 0; b < 2; ++b) {
    const bool which = b == 0;
    const int64_t chosen = std::count(condition, condition + rows, which);
    if (chosen == 0) continue;
    ctx.ResizeBlock(s.block[b], chosen);
    ctx.OpenBlock(s.block[b]);
    for (int i = 0; i < s.n_inputs; ++i) {
      Tensor& to = ctx.out(s.handed[b] + i);
      const size_t bytes = to.bytes() / static_cast<size_t>(chosen);
      const char* from = ctx.in(1 + i).as<char>();
      ForEachRow(condition, rows, which, [&](int64_t at, int64_t row) {
        std::memcpy(to.as<char>() + at * bytes, from + row * bytes, bytes);
      });
    }
    ctx.RunBlock(s.block[b], 0);
    for (int i = 0; i < s.n_results; ++i) {
      const Tensor& from = ctx.in(s.results[b] + i);
      OPSTEP_CHECK(from.dims[0] == chosen, "result ", i, " has ", from.dims[0], " rows, but ",
                   chosen, " were handed to the block");
      const size_t bytes = from.bytes() / static_cast<size_t>(chosen);
      char* to = ctx.out(s.out + i).as<char>();
      ForEachRow(condition, rows, which, [&](int64_t at, int64_t row) {
        std::memcpy(to + row * bytes, from.as<char>() + at * bytes, bytes);
      });
    }
  }
}

// The gradients of the results are split by the same condition and those of the inputs merged.
void Grad(GradContext& g) {
  const OpView& op = g.op();
  const int blocks[2] = {op.Block("true_block"), op.Block("false_block")};
  const Names results[2] = {PlainNames(op.Inputs("true_results")),
                            PlainNames(op.Inputs("false_results"))};
  const Names handed[2] = {PlainNames(op.Outputs("true_inputs")),
                           PlainNames(op.Outputs("false_inputs"))};
  const Names x = op.Inputs("X"), plain = PlainNames(x);
  std::set<std::string> reached;
  Names in_grads;
  std::vector<int> with_grad;
  for (int i = 0; i < CountOf(results[0]); ++i) {
    const std::string gradient = g.OutGrad("out", i);
    if (gradient.empty()) continue;
    with_grad.push_back(i);
    in_grads.push_back(gradient);
  }
  for (int b = 0; b < 2; ++b) {
    Names ends;
    for (const int i : with_grad) ends.push_back(results[b][i]);
    for (const std::string& name : g.Reached(blocks[b], ends)) reached.insert(name);
  }
  RefuseWritten(g, reached);
  std::vector<std::pair<std::string, std::string>> sums;  // captured variable, its gradient
  for (int i = 0; i < CountOf(x); ++i) {
    if (reached.count(plain[i]) == 0) continue;
    const std::string gradient = g.InGrad("X", i);
    if (!gradient.empty()) sums.emplace_back(plain[i], g.Copy(g.Zeros(x[i]), gradient));
  }
  std::vector<int> wanted_inputs;
  Names out;
  for (int i = 0; i < CountOf(handed[0]); ++i) {
    if (reached.count(handed[0][i]) == 0 && reached.count(handed[1][i]) == 0) continue;
    const std::string gradient = g.InGrad("inputs", i);
    if (gradient.empty()) continue;
    wanted_inputs.push_back(i);
    out.push_back(gradient);
  }
  if (sums.empty() && out.empty()) return;
  int made[2];
  Names steps[2], found[2];
  for (int b = 0; b < 2; ++b) {
    g.BeginBlock(blocks[b]);
    std::vector<std::pair<std::string, std::string>> seeds;
    Names wanted;
    for (const int i : with_grad) {
      steps[b].push_back(g.Declare(results[b][i] + "@grad_in", results[b][i]));
      seeds.emplace_back(results[b][i], steps[b].back());
    }
    for (const int i : wanted_inputs) wanted.push_back(handed[b][i]);
    for (const auto& [name, gradient] : sums) wanted.push_back(name);
    Names gradients = g.Differentiate(seeds, wanted);
    for (size_t i = 0; i < wanted_inputs.size(); ++i) {
      found[b].push_back(gradients[i].empty() ? g.Zeros(wanted[i]) : gradients[i]);
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      const std::string& gradient = gradients[wanted_inputs.size() + i];
      if (!gradient.empty()) g.AddTo(sums[i].second, gradient);
    }
    made[b] = g.EndBlock();
  }
  g.Emit("ifelse",
         {{"condition", op.Inputs("condition")},
          {"inputs", in_grads},
          {"true_results", found[0]},
          {"false_results", found[1]}},
         {{"true_inputs", steps[0]}, {"false_inputs", steps[1]}, {"out", out}},
         {BlockAttr("true_block", made[0]), BlockAttr("false_block", made[1])});
}

const bool kIfelse =
    Op("ifelse")
        .Doc("Splits rows by a condition, runs one block on each part and merges their results.")
        .In("condition", "[rows] or [rows, 1]: which block gets the row", kBools)
        .In("inputs", "[rows, ...] each", kEvery)
        .Variadic()
        .In("X", "variables from outside that the blocks read or write", kEvery)
        .Captures()
        .In("true_results", "of the true block: a row for each of its rows", kEvery)
        .Variadic()
        .OfBlock("true_block")
        .In("false_results", "of the false block, the same number and types", kEvery)
        .Variadic()
        .OfBlock("false_block")
        .Required("true_block", AttrType::kBlock,
                  "runs on the rows whose condition holds, unless there are none")
        .Required("false_block", AttrType::kBlock, "runs on the others")
        .Out("true_inputs", "handed to the true block: its rows of the inputs", kEvery)
        .Variadic()
        .OfBlock("true_block")
        .Out("false_inputs", "handed to the false block", kEvery)
        .Variadic()
        .OfBlock("false_block")
        .Out("out", "[rows, ...]: the results, in the order of the rows", kEvery)
        .Variadic()
        .Out("written", "variables of X that the blocks write", kEvery)
        .Captures()
        .SideEffect()
        .ResizesBlocks()
        .OwnTest()
        .Shape(Shape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return WithState<State>(Run, State(ctx.op()));
        })
        .Grad(Grad)
        .Register();

}  // namespace
}  // namespace opstep
