// recurrent: runs a block for each step of sequences, with memories from step to step.
#include <set>

#include "ops/control/block_grad.h"
#include "ops/lib/block_shape.h"

namespace opstep {
namespace {

// The first variable of each slot among the inputs and outputs.
struct State {
  int block;
  bool reverse;
  int n_sequences, n_memories, n_outputs;
  int initial, updates, step_outputs;
  int memories, outputs, final;

  explicit State(const OpView& op)
      : block(op.Block("block")),
        reverse(op.Bool("reverse")),
        n_sequences(CountOf(op.Inputs("sequences"))),
        n_memories(CountOf(op.Inputs("initial"))),
        n_outputs(CountOf(op.Inputs("step_outputs"))),
        initial(n_sequences),
        updates(initial + n_memories + CountOf(op.Inputs("X"))),
        step_outputs(updates + n_memories),
        memories(n_sequences),
        outputs(memories + n_memories),
        final(outputs + n_outputs) {}
};

Dims WithoutFirst(const Dims& dims) {
  return Dims(std::span(dims.begin() + 1, static_cast<size_t>(dims.rank() - 1)));
}

void Shape(ShapeContext& ctx) {
  const OpView& op = ctx.op();
  const State s(op);
  OPSTEP_CHECK(s.n_sequences > 0, "it needs a sequence to know how many steps there are");
  OPSTEP_CHECK(CountOf(op.Inputs("updates")) == s.n_memories, "there are ", s.n_memories,
               " memories and ", CountOf(op.Inputs("updates")),
               " updates: each memory needs the value for the next step");
  CheckCount(op, "step_inputs", s.n_sequences);
  CheckCount(op, "memories", s.n_memories);
  CheckCount(op, "outputs", s.n_outputs);
  CheckCount(op, "final", s.n_memories);
  int64_t steps = -1;
  for (int i = 0; i < s.n_sequences; ++i) {
    const Dims& dims = ctx.in(i).dims;
    OPSTEP_CHECK(dims.rank() > 0, "sequence ", i, " is a scalar: its first axis must be the steps");
    OPSTEP_CHECK(steps < 0 || dims[0] < 0 || steps == dims[0], "sequence ", i, " has ", dims[0],
                 " steps, but another one has ", steps);
    if (steps < 0) steps = dims[0];
    ctx.set_out(i, {ctx.in(i).dtype, WithoutFirst(dims)});
  }
  for (int i = 0; i < s.n_memories; ++i) {
    const VarType& first = ctx.in(s.initial + i);
    const VarType& next = ctx.in(s.updates + i);
    if (next.dtype != DType::kNone) Merged(first, next, Cat("memory ", i));
    ctx.set_out(s.memories + i, first);
    ctx.set_out(s.final + i, first);
  }
  for (int i = 0; i < s.n_outputs; ++i) {
    const VarType& one = ctx.in(s.step_outputs + i);
    if (one.dtype == DType::kNone) continue;  // the block has not been inferred yet
    Dims dims{steps};
    for (const int64_t size : one.dims) dims.push_back(size);
    ctx.set_out(s.outputs + i, {one.dtype, dims});
  }
  KeepTypes(ctx, "written", s.final + s.n_memories, s.initial + s.n_memories);
}

void Run(KernelContext& ctx) {
  const State& s = ctx.state<State>();
  // `final` holds the memories between the steps.
  for (int i = 0; i < s.n_memories; ++i) CopyValue(ctx.in(s.initial + i), ctx.out(s.final + i));
  const int64_t steps = ctx.in(0).dims[0];
  for (int64_t n = 0; n < steps; ++n) {
    const int64_t t = s.reverse ? steps - 1 - n : n;
    ctx.OpenBlock(s.block);
    for (int i = 0; i < s.n_sequences; ++i) {
      Tensor& to = ctx.out(i);
      if (to.numel > 0) std::memcpy(to.data, ctx.in(i).as<char>() + t * to.bytes(), to.bytes());
    }
    for (int i = 0; i < s.n_memories; ++i) CopyValue(ctx.out(s.final + i), ctx.out(s.memories + i));
    ctx.RunBlock(s.block, static_cast<uint64_t>(t));
    for (int i = 0; i < s.n_memories; ++i) CopyValue(ctx.in(s.updates + i), ctx.out(s.final + i));
    for (int i = 0; i < s.n_outputs; ++i) {
      const Tensor& from = ctx.in(s.step_outputs + i);
      if (from.numel > 0)
        std::memcpy(ctx.out(s.outputs + i).as<char>() + t * from.bytes(), from.data, from.bytes());
    }
  }
}

// The steps in the other direction: gradients of the outputs come in as sequences, gradients of the
// memories pass from step to step, gradients of the sequences come out.
void Grad(GradContext& g) {
  const OpView& op = g.op();
  const int body = op.Block("block");
  const Names sequences = op.Inputs("sequences"), initial = op.Inputs("initial");
  const Names step_inputs = PlainNames(op.Outputs("step_inputs"));
  const Names memories = PlainNames(op.Outputs("memories"));
  const Names updates = PlainNames(op.Inputs("updates"));
  const Names step_outputs = PlainNames(op.Inputs("step_outputs"));
  const Names x = op.Inputs("X"), plain = PlainNames(x);
  const auto each = [](const Names& names, auto&& f) {
    for (int i = 0; i < CountOf(names); ++i) f(i);
  };

  Names ends;
  each(step_outputs, [&](int i) {
    if (!g.OutGrad("outputs", i).empty()) ends.push_back(step_outputs[i]);
  });
  // Memories that a gradient goes through, over any number of steps.
  std::vector<bool> active(memories.size());
  std::set<std::string> reached;
  each(memories, [&](int i) { active[i] = !g.OutGrad("final", i).empty(); });
  for (bool changed = true; changed;) {
    Names all = ends;
    each(memories, [&](int i) {
      if (active[i]) all.push_back(updates[i]);
    });
    for (const std::string& name : g.Reached(body, all)) reached.insert(name);
    changed = false;
    each(memories, [&](int i) {
      if (active[i] || reached.count(memories[i]) == 0) return;
      active[i] = changed = true;
    });
  }

  RefuseWritten(g, reached);
  if (ends.empty() && std::find(active.begin(), active.end(), true) == active.end()) return;

  // Before the loop: the sums that the block adds to, and the first gradients of the memories.
  std::vector<std::pair<std::string, std::string>> sums;  // captured variable, its gradient
  each(x, [&](int i) {
    if (reached.count(plain[i]) == 0) return;
    const std::string gradient = g.InGrad("X", i);
    if (!gradient.empty()) sums.emplace_back(plain[i], g.Copy(g.Zeros(x[i]), gradient));
  });
  Names first, last;
  each(memories, [&](int i) {
    if (!active[i]) return;
    const std::string from = g.OutGrad("final", i), to = g.InGrad("initial", i);
    first.push_back(from.empty() ? g.Zeros(initial[i]) : from);
    last.push_back(to.empty() ? g.Fresh(memories[i] + "@grad") : to);
  });

  g.BeginBlock(body);
  std::vector<std::pair<std::string, std::string>> seeds;
  Names in_sequences, in_steps, in_memories, next, out_steps, out_sequences, wanted;
  each(step_outputs, [&](int i) {
    const std::string gradient = g.OutGrad("outputs", i);
    if (gradient.empty()) return;
    in_sequences.push_back(gradient);
    in_steps.push_back(g.Declare(step_outputs[i] + "@grad_in", step_outputs[i]));
    seeds.emplace_back(step_outputs[i], in_steps.back());
  });
  if (in_sequences.empty()) {  // only the last memories count; sequences give the steps
    in_sequences.push_back(sequences[0]);
    in_steps.push_back(g.Declare(step_inputs[0] + "@step", step_inputs[0]));
  }
  each(memories, [&](int i) {
    if (!active[i]) return;
    in_memories.push_back(g.Declare(updates[i] + "@grad_in", memories[i]));
    seeds.emplace_back(updates[i], in_memories.back());
    wanted.push_back(memories[i]);
  });
  each(step_inputs, [&](int i) {
    if (reached.count(step_inputs[i]) == 0) return;
    const std::string gradient = g.InGrad("sequences", i);
    if (gradient.empty()) return;
    wanted.push_back(step_inputs[i]);
    out_sequences.push_back(gradient);
  });
  for (const auto& [name, gradient] : sums) wanted.push_back(name);
  Names found = g.Differentiate(seeds, wanted);
  for (size_t i = 0; i < in_memories.size() + out_sequences.size(); ++i) {
    std::string& gradient = found[i];
    if (gradient.empty()) gradient = g.Zeros(wanted[i]);
    (i < in_memories.size() ? next : out_steps).push_back(gradient);
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    const std::string& gradient = found[in_memories.size() + out_sequences.size() + i];
    if (!gradient.empty()) g.AddTo(sums[i].second, gradient);
  }
  const int block = g.EndBlock();
  g.Emit("recurrent",
         {{"sequences", in_sequences},
          {"initial", first},
          {"updates", next},
          {"step_outputs", out_steps}},
         {{"step_inputs", in_steps},
          {"memories", in_memories},
          {"outputs", out_sequences},
          {"final", last}},
         {BlockAttr("block", block), BoolAttr("reverse", !op.Bool("reverse"))});
}

const bool kRecurrent =
    Op("recurrent")
        .Doc("Runs a block for each step of sequences, with memories from step to step.")
        .In("sequences", "[steps, ...] each", kEvery)
        .Variadic()
        .In("initial", "the memories before the first step", kEvery)
        .Variadic()
        .In("X", "variables from outside that the block reads or writes", kEvery)
        .Captures()
        .In("updates", "of the block: the memories for the next step", kEvery)
        .Variadic()
        .OfBlock("block")
        .In("step_outputs", "of the block: one step of each output", kEvery)
        .Variadic()
        .OfBlock("block")
        .Required("block", AttrType::kBlock, "the ops of one step")
        .Attr(BoolAttr("reverse", false), "begin with the last step")
        .Out("step_inputs", "handed to the block: one step of each sequence", kEvery)
        .Variadic()
        .OfBlock("block")
        .Out("memories", "handed to the block: the memories of the previous step", kEvery)
        .Variadic()
        .OfBlock("block")
        .Out("outputs", "[steps, ...]: the step outputs of all steps", kEvery)
        .Variadic()
        .Out("final", "the memories after the last step", kEvery)
        .Variadic()
        .Out("written", "variables of X that the block writes", kEvery)
        .Captures()
        .SideEffect()
        .OwnTest()
        .Shape(Shape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return WithState<State>(Run, State(ctx.op()));
        })
        .Grad(Grad)
        .Register();

}  // namespace
}  // namespace opstep
