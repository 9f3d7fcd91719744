// Plans of the gradients of a tape, with a cache by its wiring.
#include "runtime/tape_plan.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/latest_cache.h"
#include "ops/infer.h"
#include "ops/op.h"
#include "passes/backward.h"
#include "passes/build.h"
#include "runtime/traced_program.h"

namespace opstep {
namespace {

constexpr size_t kCachedTapes = 256;
// Of the memory that their runs use.
constexpr size_t kCachedBytes = size_t{512} << 20;

// The values of a tape with small numbers: the same for tapes of the same ops over other values.
class Wiring {
 public:
  // Without `wanted`, the gradients of all leaves are.
  Wiring(const Tape& tape, const RuntimeValue& loss, const std::vector<ValuePtr>& wanted) {
    for (uint32_t n = 0; n < tape.size(); ++n) {
      const TapeNode& node = *tape[n];
      Key(node.op->id);
      for (uint32_t i = 0; i < node.inputs.size(); ++i) {
        const RuntimeValue& input = *node.inputs[i];
        const bool flows = node.wanted[i];
        // Without a gradient, only the memory counts.
        const Identity identity = flows ? IdentityOf(input) : Identity{input.buffer.get(), 1};
        const uint32_t number = Number(identity, {n, false, i});
        inputs.emplace_back(number);
        if (flows && input.node == nullptr) leaves.insert(number);
        if (!flows) plain.insert(number);
        Key(uint64_t{number} << 1 | (flows ? 1 : 0));
      }
      for (uint32_t i = 0; i < node.outputs.size(); ++i)
        outputs.push_back(Number({&node, ~i}, {n, true, i}));
    }
    loss_number = Number(IdentityOf(loss), {});
    Key(loss_number);
    for (size_t i = 0; i < wanted.size(); ++i) {
      const auto it = numbers_.find(IdentityOf(*wanted[i]));
      OPSTEP_CHECK(it != numbers_.end(), "grad: the output was not computed from input ", i,
                   wanted[i]->stop_gradient ? ", which has stop_gradient; set that to False before "
                                              "it is used"
                                            : "");
      wanted_numbers.push_back(it->second);
      Key(it->second);
    }
  }

  std::string key;
  // Numbers of all nodes' inputs and outputs, one after the other.
  std::vector<uint32_t> inputs, outputs;
  std::vector<Place> places;
  std::set<uint32_t> leaves, plain;
  uint32_t loss_number = 0;
  std::vector<uint32_t> wanted_numbers;

 private:
  using Identity = std::pair<const void*, uint32_t>;
  static Identity IdentityOf(const RuntimeValue& value) {
    if (value.node != nullptr) return {value.node.get(), ~value.output};
    return {&value, 0};
  }
  void Key(uint64_t part) { key.append(reinterpret_cast<const char*>(&part), sizeof part); }
  uint32_t Number(const Identity& identity, Place place) {
    const auto [it, added] = numbers_.emplace(identity, static_cast<uint32_t>(places.size()));
    if (added) places.push_back(place);
    return it->second;
  }
  std::map<Identity, uint32_t> numbers_;
};

class Builder {
 public:
  Builder(const Tape& tape, const Wiring& wiring)
      : tape_(tape), wiring_(wiring), names_(wiring.places.size()) {}

  std::shared_ptr<const BackwardPlan> Build(const TapeRequest& request) {
    for (uint32_t n = 0, in = 0, out = 0; n < tape_.size(); ++n) AddForward(n, in, out);
    const size_t forward = static_cast<size_t>(program_->block(0).ops_size());
    std::vector<std::string> wanted;
    for (const uint32_t number : wiring_.wanted_numbers) wanted.push_back(names_[number]);
    proto::OpDesc asked;
    request.at.write(*program_, asked);
    const auto gradients =
        AppendBackward(*program_, 0, names_[wiring_.loss_number], wanted, &asked);
    DropForward(static_cast<int>(forward));
    auto made = std::make_shared<BackwardPlan>();
    std::vector<FeedType> feeds = Feeds(*made);
    std::vector<std::string> fetches;
    for (const auto& [name, gradient] : gradients) {
      made->leaves.push_back(wiring_.places[numbers_.at(name)]);
      fetches.push_back(gradient);
    }
    if (request.record) {
      MakeSteps(*made, feeds, fetches);
    } else {
      made->plan = std::make_unique<CompiledPlan>(Compile(program_, feeds, fetches));
    }
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
      for (std::string& name : *slot.mutable_vars()) {
        const uint32_t number = wiring_.inputs[in++];
        if (!name.empty()) name = Variable(number, name, false);
      }
    }
    uint32_t i = 0;
    for (proto::Slot& slot : *op.mutable_outputs()) {
      for (std::string& name : *slot.mutable_vars()) {
        const uint32_t number = wiring_.outputs[out++];
        const bool in_place = node.in_place[i++];
        if (!name.empty()) name = Variable(number, name, in_place);
      }
    }
    AppendOp(*program_, 0, std::move(op));
  }

  // The variable for a value, made at its first use.
  const std::string& Variable(uint32_t number, const std::string& wish, bool in_place) {
    std::string& name = names_[number];
    if (!name.empty()) return name;
    name = wish;
    // A gradient on the tape is a value like others: its name is not kept for the pass.
    std::replace(name.begin(), name.end(), '@', '.');
    const std::string base = name;
    for (int i = 1; program_->FindVarHere(0, name) != nullptr; ++i) name = Cat(base, "_", i);
    proto::VarDesc var;
    var.set_name(name);
    var.set_kind(proto::TENSOR);
    SetType(var, BufferAt(tape_, wiring_.places[number]).tensor.type());
    // The values whose gradients are wanted are this program's parameters until it has its
    // gradients.
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

  // Each gradient op as a separate program, under its own name and on its line.
  void MakeSteps(BackwardPlan& made, const std::vector<FeedType>& feeds,
                 const std::vector<std::string>& gradients) const {
    std::unordered_map<std::string, int> numbers{{"", -1}};
    for (const FeedType& feed : feeds) numbers.emplace(feed.name, made.variables++);
    for (const proto::OpDesc& original : program_->block(0).ops()) {
      Step step;
      auto alone = std::make_shared<Program>("imperative");
      proto::OpDesc op = original;
      op.clear_id();
      op.clear_forward_op();
      std::string call = Cat(op.type(), "\n", op.name(), "\n");
      for (uint32_t& frame : *op.mutable_stack()) {
        const SourceFrame line = program_->frame(frame);
        call += Cat(line.file, ":", line.line, "\n");
        frame = alone->InternFrame(line);
      }
      NumberCall(*alone, call);
      std::vector<VarType> types, none;
      for (const proto::Slot& slot : op.inputs()) {
        for (const std::string& name : slot.vars()) {
          step.inputs.push_back(numbers.at(name));
          types.push_back(name.empty() ? VarType{} : TypeOf(*program_->FindVarHere(0, name)));
        }
      }
      for (const proto::Slot& slot : op.outputs()) {
        for (const std::string& name : slot.vars()) {
          if (!name.empty()) numbers[name] = made.variables++;
          step.outputs.push_back(numbers.at(name));
          none.emplace_back();
        }
      }
      step.op = MakeTracedOp(std::move(alone), std::move(op), types, none);
      made.steps.push_back(std::move(step));
    }
    for (const std::string& name : gradients) made.gradients.push_back(numbers.at(name));
  }

  const Tape& tape_;
  const Wiring& wiring_;
  const std::shared_ptr<Program> program_ = std::make_shared<Program>("backward");
  std::vector<std::string> names_;  // by number
  std::unordered_map<std::string, uint32_t> numbers_;
};

}  // namespace

const Buffer& BufferAt(const Tape& tape, const Place& place) {
  const TapeNode& node = *tape[place.node];
  return place.output ? *node.outputs[place.index] : *node.inputs[place.index]->buffer;
}

std::shared_ptr<const BackwardPlan> PlanFor(const Tape& tape, const TapeRequest& request) {
  static std::mutex mutex;
  static auto* plans =
      new LatestCache<std::shared_ptr<const BackwardPlan>>(kCachedTapes, kCachedBytes);
  const Wiring wiring(tape, request.loss, request.wanted);
  const std::string key =
      Cat(wiring.key, request.record ? 'r' : 'p', std::to_string(request.at.number));
  {
    const std::lock_guard lock(mutex);
    if (std::shared_ptr<const BackwardPlan> plan = plans->Find(key)) return plan;
  }
  std::shared_ptr<const BackwardPlan> made = Builder(tape, wiring).Build(request);
  const std::lock_guard lock(mutex);
  if (std::shared_ptr<const BackwardPlan> plan = plans->Find(key)) return plan;
  plans->Put(key, made, made->plan ? made->plan->plan().fast_bytes : 0);
  return made;
}

}  // namespace opstep
