// Gradients of what imperative mode ran.
#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "ops/infer.h"
#include "ops/op.h"
#include "passes/backward.h"
#include "passes/build.h"
#include "runtime/tracer.h"

namespace opstep {
namespace {

constexpr size_t kCachedTapes = 256;

// A value of a tape: an input or output of one of its ops.
struct Place {
  uint32_t node = 0;
  bool output = false;
  uint32_t index = 0;
};

using Tape = std::vector<std::shared_ptr<TapeNode>>;

// What the loss was computed by, in the order in which it ran.
Tape Collect(const RuntimeValue& loss) {
  Tape tape;
  std::unordered_set<const TapeNode*> seen{loss.node.get()};
  std::vector<std::shared_ptr<TapeNode>> pending{loss.node};
  while (!pending.empty()) {
    std::shared_ptr<TapeNode> node = std::move(pending.back());
    pending.pop_back();
    OPSTEP_CHECK(!node->released, "backward has already gone through ", node->op->op().name(),
                 node->op->program->Place(node->op->op()),
                 " and has freed what that op saw: say backward(retain=True) the first time");
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

// The values of a tape with small numbers: the same for tapes of the same ops over other values.
class Wiring {
 public:
  Wiring(const Tape& tape, const RuntimeValue& loss) {
    for (uint32_t n = 0; n < tape.size(); ++n) {
      const TapeNode& node = *tape[n];
      Key(node.op->id);
      for (uint32_t i = 0; i < node.inputs.size(); ++i) {
        const RuntimeValue& input = *node.inputs[i];
        const bool wanted = node.wanted[i];
        // Where no gradient flows only the memory counts.
        const Identity identity = !wanted ? Identity{input.buffer.get(), 1}
                                  : input.node != nullptr
                                      ? Identity{input.node.get(), ~input.output}
                                      : Identity{&input, 0};
        const uint32_t number = Number(identity, {n, false, i});
        inputs.emplace_back(number);
        if (wanted && input.node == nullptr) leaves.insert(number);
        if (!wanted) plain.insert(number);
        Key(uint64_t{number} << 1 | (wanted ? 1 : 0));
      }
      for (uint32_t i = 0; i < node.outputs.size(); ++i)
        outputs.push_back(Number({&node, ~i}, {n, true, i}));
    }
    loss_number = Number({loss.node.get(), ~loss.output}, {});
    Key(loss_number);
  }

  std::string key;
  // Numbers of all nodes' inputs and outputs, one after the other.
  std::vector<uint32_t> inputs, outputs;
  std::vector<Place> places;
  std::set<uint32_t> leaves, plain;
  uint32_t loss_number = 0;

 private:
  using Identity = std::pair<const void*, uint32_t>;
  void Key(uint64_t part) { key.append(reinterpret_cast<const char*>(&part), sizeof part); }
  uint32_t Number(const Identity& identity, Place place) {
    const auto [it, added] = numbers_.emplace(identity, static_cast<uint32_t>(places.size()));
    if (added) places.push_back(place);
    return it->second;
  }
  std::map<Identity, uint32_t> numbers_;
};

// The gradient ops of a tape.
struct BackwardPlan {
  std::unique_ptr<CompiledPlan> plan;
  struct Fed {
    Place place;
    bool shape_only;
  };
  std::vector<Fed> fed;
  std::vector<Place> leaves;  // of which the plan gives the gradients, in this order
};

const Buffer& BufferAt(const Tape& tape, const Place& place) {
  const TapeNode& node = *tape[place.node];
  return place.output ? *node.outputs[place.index] : *node.inputs[place.index]->buffer;
}

class Builder {
 public:
  Builder(const Tape& tape, const Wiring& wiring)
      : tape_(tape), wiring_(wiring), names_(wiring.places.size()) {}

  std::shared_ptr<const BackwardPlan> Build() {
    for (uint32_t n = 0, in = 0, out = 0; n < tape_.size(); ++n) AddForward(n, in, out);
    const size_t forward = static_cast<size_t>(program_->block(0).ops_size());
    const auto gradients = AppendBackward(*program_, 0, names_[wiring_.loss_number]);
    DropForward(static_cast<int>(forward));
    auto made = std::make_shared<BackwardPlan>();
    std::vector<FeedType> feeds = Feeds(*made);
    std::vector<std::string> fetches;
    for (const auto& [name, gradient] : gradients) {
      made->leaves.push_back(wiring_.places[numbers_.at(name)]);
      fetches.push_back(gradient);
    }
    made->plan = std::make_unique<CompiledPlan>(Compile(program_, feeds, fetches));
    return made;
  }

 private:
  // The node's op over the tape's variables.
  void AddForward(uint32_t n, uint32_t& in, uint32_t& out) {
    const TapeNode& node = *tape_[n];
    const proto::OpDesc& original = node.op->op();
    proto::OpDesc op = original;
    op.set_name(program_->UniqueOpName(original.name()));
    op.set_stop(false);
    for (uint32_t& frame : *op.mutable_stack())
      frame = program_->InternFrame(node.op->program->frame(frame));
    for (proto::Slot& slot : *op.mutable_inputs()) {
      for (std::string& name : *slot.mutable_vars())
        name = Variable(wiring_.inputs[in++], name, false);
    }
    uint32_t i = 0;
    for (proto::Slot& slot : *op.mutable_outputs()) {
      for (std::string& name : *slot.mutable_vars())
        name = Variable(wiring_.outputs[out++], name, node.in_place[i++]);
    }
    AppendOp(*program_, 0, std::move(op));
  }

  // The variable for a value, made when it is met first.
  const std::string& Variable(uint32_t number, const std::string& wish, bool in_place) {
    std::string& name = names_[number];
    if (!name.empty()) return name;
    name = wish;
    for (int i = 1; program_->FindVarHere(0, name) != nullptr; ++i) name = Cat(wish, "_", i);
    proto::VarDesc var;
    var.set_name(name);
    var.set_kind(proto::TENSOR);
    SetType(var, BufferAt(tape_, wiring_.places[number]).tensor.type());
    // What gradients are wanted of are the parameters of this program, until it has its gradients.
    const bool leaf = wiring_.leaves.count(number) != 0;
    var.set_persistable(leaf);
    var.set_parameter(leaf);
    var.set_trainable(leaf);
    var.set_stop_gradient(in_place || wiring_.plain.count(number) != 0);
    program_->CreateVar(0, std::move(var));
    numbers_.emplace(name, number);
    return name;
  }

  // The forward ops have run: their values are fed.
  void DropForward(int forward) {
    proto::ProgramDesc desc = program_->desc();
    proto::BlockDesc& block = *desc.mutable_blocks(0);
    block.mutable_ops()->DeleteSubrange(0, forward);
    for (proto::VarDesc& var : *block.mutable_vars()) {
      var.set_persistable(false);
      var.set_parameter(false);
      var.set_trainable(false);
    }
    program_->Restore(desc);
  }

  std::vector<FeedType> Feeds(BackwardPlan& made) const {
    std::vector<FeedType> feeds;
    std::unordered_map<std::string, size_t> known;
    std::unordered_set<std::string> computed;
    for (const proto::OpDesc& op : program_->block(0).ops()) {
      for (const Arg& arg : InputArgs(op, 0)) {
        if (arg.name.empty() || computed.count(arg.name) != 0) continue;
        const auto [it, added] = known.emplace(arg.name, feeds.size());
        if (added) {
          const Place& place = wiring_.places[numbers_.at(arg.name)];
          feeds.push_back({arg.name, BufferAt(tape_, place).tensor.type()});
          made.fed.push_back({place, true});
        }
        if (!arg.slot->shape_only) made.fed[it->second].shape_only = false;
      }
      for (const std::string& name : FlatOutputs(op)) computed.insert(name);
    }
    return feeds;
  }

  const Tape& tape_;
  const Wiring& wiring_;
  const std::shared_ptr<Program> program_ = std::make_shared<Program>("backward");
  std::vector<std::string> names_;  // by number
  std::unordered_map<std::string, uint32_t> numbers_;
};

std::shared_ptr<const BackwardPlan> PlanFor(const Tape& tape, const RuntimeValue& loss) {
  static std::mutex mutex;
  static auto* plans = new std::unordered_map<std::string, std::shared_ptr<const BackwardPlan>>;
  const Wiring wiring(tape, loss);
  {
    const std::lock_guard lock(mutex);
    if (const auto it = plans->find(wiring.key); it != plans->end()) return it->second;
  }
  std::shared_ptr<const BackwardPlan> made = Builder(tape, wiring).Build();
  const std::lock_guard lock(mutex);
  if (plans->size() >= kCachedTapes) plans->clear();
  return plans->emplace(wiring.key, std::move(made)).first->second;
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

}  // namespace

std::vector<std::pair<ValuePtr, ValuePtr>> RunBackward(const ValuePtr& loss, bool retain) {
  OPSTEP_CHECK(loss->node != nullptr && !loss->stop_gradient,
               "backward: the value was computed from nothing that a gradient is wanted of; set "
               "stop_gradient = False before it is used");
  const Tape tape = Collect(*loss);
  const std::shared_ptr<const BackwardPlan> backward = PlanFor(tape, *loss);
  std::vector<Feed> feeds;
  for (const BackwardPlan::Fed& fed : backward->fed) {
    if (!fed.shape_only) CheckUnchanged(*tape[fed.place.node], fed.place);
    feeds.push_back({"", BufferAt(tape, fed.place).tensor});
  }
  Scope scope;
  std::vector<Tensor> gradients = backward->plan->Run(feeds, scope);
  std::vector<std::pair<ValuePtr, ValuePtr>> result;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Place& leaf = backward->leaves[i];
    result.emplace_back(tape[leaf.node]->inputs[leaf.index], MakeValue(std::move(gradients[i])));
  }
  if (!retain) {
    for (const std::shared_ptr<TapeNode>& node : tape) node->Release();
  }
  return result;
}

}  // namespace opstep
