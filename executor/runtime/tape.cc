// Gradients of the ops that imperative mode ran.
#include <algorithm>
#include <unordered_set>

#include "runtime/tape_plan.h"

namespace opstep {
namespace {

// The ops that computed the loss, in the order of their runs.
Tape Collect(const RuntimeValue& loss) {
  Tape tape;
  std::unordered_set<const TapeNode*> seen{loss.node.get()};
  std::vector<std::shared_ptr<TapeNode>> pending{loss.node};
  while (!pending.empty()) {
    std::shared_ptr<TapeNode> node = std::move(pending.back());
    pending.pop_back();
    OPSTEP_CHECK(!node->released, "backward has already gone through ", node->op->op().name(),
                 node->op->program->Place(node->op->op()),
                 " and has freed the values of that op: call backward(retain=True) the first time");
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      const std::shared_ptr<TapeNode>& maker = node->inputs[i]->node;
      if (node->wanted[i] && maker != nullptr && seen.insert(maker.get()).second)
        pending.push_back(maker);
    }
    tape.push_back(std::move(node));
  }
  std::sort(tape.begin(), tape.end(),
            [](const auto& a, const auto& b) { return a->number < b->number; });
  return tape;
}

void CheckUnchanged(const TapeNode& node, const Place& place) {
  const Buffer& buffer =
      place.output ? *node.outputs[place.index] : *node.inputs[place.index]->buffer;
  const uint32_t then = (place.output ? node.output_writes : node.input_writes)[place.index];
  OPSTEP_CHECK(buffer.writes.load(std::memory_order_relaxed) == then, "a value that ",
               node.op->op().name(), place.output ? " gave" : " read", " was written into since",
               node.op->program->Place(node.op->op()),
               ", so that its gradient is not defined any more: call backward before");
}

// The tape's value at a place, as ops that run now can read it.
ValuePtr ValueAt(const Tape& tape, const Place& place) {
  const std::shared_ptr<TapeNode>& node = tape[place.node];
  if (!place.output) return node->inputs[place.index];
  auto value = std::make_shared<RuntimeValue>();
  value->buffer = node->outputs[place.index];
  value->stop_gradient = node->in_place[place.index] || !IsFloat(value->tensor().dtype);
  value->node = node;
  value->output = place.index;
  return value;
}

std::vector<ValuePtr> RunPlan(const BackwardPlan& backward, const Tape& tape) {
  std::vector<Feed> feeds;
  for (const BackwardPlan::Fed& fed : backward.fed)
    feeds.push_back({"", BufferAt(tape, fed.place).tensor});
  Scope scope;
  std::vector<ValuePtr> gradients;
  for (Tensor& gradient : backward.plan->Run(feeds, scope))
    gradients.push_back(MakeValue(std::move(gradient)));
  return gradients;
}

std::vector<ValuePtr> RunSteps(const BackwardPlan& backward, const Tape& tape) {
  std::vector<ValuePtr> variables(backward.variables);
  for (size_t i = 0; i < backward.fed.size(); ++i)
    variables[i] = ValueAt(tape, backward.fed[i].place);
  for (const Step& step : backward.steps) {
    std::vector<ValuePtr> inputs, outputs;
    for (const int number : step.inputs)
      inputs.push_back(number < 0 ? MakeValue(Tensor()) : variables[number]);
    for (const int number : step.outputs)
      outputs.push_back(number < 0 ? MakeValue(Tensor()) : nullptr);
    RunTracedOp(step.op, inputs, outputs, true);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (step.outputs[i] >= 0) variables[step.outputs[i]] = std::move(outputs[i]);
    }
  }
  std::vector<ValuePtr> gradients;
  for (const int number : backward.gradients) gradients.push_back(variables[number]);
  return gradients;
}

void CheckLoss(const RuntimeValue& loss) {
  OPSTEP_CHECK(loss.node != nullptr && !loss.stop_gradient,
               "backward: the value depends on nothing that needs a gradient; set "
               "stop_gradient = False before it is used");
}

void CheckUnchanged(const Tape& tape, const BackwardPlan& backward) {
  for (const BackwardPlan::Fed& fed : backward.fed) {
    if (!fed.shape_only) CheckUnchanged(*tape[fed.place.node], fed.place);
  }
}

void Release(const Tape& tape) {
  for (const std::shared_ptr<TapeNode>& node : tape) node->Release();
}

}  // namespace

std::vector<std::pair<ValuePtr, ValuePtr>> RunBackward(const ValuePtr& loss, bool retain,
                                                       const AskedAt& at) {
  CheckLoss(*loss);
  const Tape tape = Collect(*loss);
  const std::shared_ptr<const BackwardPlan> backward = PlanFor(tape, {*loss, {}, at});
  CheckUnchanged(tape, *backward);
  std::vector<ValuePtr> gradients = RunPlan(*backward, tape);
  std::vector<std::pair<ValuePtr, ValuePtr>> result;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Place& leaf = backward->leaves[i];
    result.emplace_back(tape[leaf.node]->inputs[leaf.index], std::move(gradients[i]));
  }
  if (!retain) Release(tape);
  return result;
}

std::vector<ValuePtr> RunGradients(const ValuePtr& loss, const std::vector<ValuePtr>& wanted,
                                   bool retain, bool record, const AskedAt& at) {
  CheckLoss(*loss);
  const Tape tape = Collect(*loss);
  const std::shared_ptr<const BackwardPlan> backward = PlanFor(tape, {*loss, wanted, at, record});
  CheckUnchanged(tape, *backward);
  std::vector<ValuePtr> gradients = record ? RunSteps(*backward, tape) : RunPlan(*backward, tape);
  if (!retain && !record) Release(tape);
  return gradients;
}

}  // namespace opstep
