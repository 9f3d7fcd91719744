// Tracer: compiles one op and runs it at once.
#include "runtime/tracer.h"

#include <algorithm>
#include <array>
#include <memory_resource>
#include <unordered_map>

#include "ops/op.h"
#include "passes/build.h"
#include "runtime/traced_program.h"

namespace opstep {
namespace {

// Bytes that an op reads and writes in well under a microsecond.
constexpr size_t kBrief = 16 << 10;

uint64_t NextNumber() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

void CreateVar(Program& program, const std::string& name, const VarType& type, bool persistable) {
  proto::VarDesc var;
  var.set_name(name);
  var.set_kind(proto::TENSOR);
  SetType(var, type);
  var.set_persistable(persistable);
  program.CreateVar(0, std::move(var));
}

std::vector<std::string> VarNames(const google::protobuf::RepeatedPtrField<proto::Slot>& slots) {
  std::vector<std::string> names;
  for (const proto::Slot& slot : slots)
    names.insert(names.end(), slot.vars().begin(), slot.vars().end());
  return names;
}

void Record(const std::shared_ptr<const TracedOp>& op, std::span<const ValuePtr> inputs,
            std::span<const ValuePtr> outputs, const Few<uint32_t>& input_writes) {
  auto node = std::make_shared<TapeNode>();
  node->number = NextNumber();
  node->op = op;
  node->inputs.assign(inputs.begin(), inputs.end());
  for (const ValuePtr& input : inputs) node->wanted.push_back(input->differentiable());
  node->input_writes = input_writes;
  node->outputs.reserve(outputs.size());
  for (const ValuePtr& output : outputs) {
    node->in_place.push_back(true);
    node->outputs.push_back(output->buffer);
    node->output_writes.push_back(output->buffer->writes.load(std::memory_order_relaxed));
  }
  for (const uint32_t place : op->made) {
    RuntimeValue& made = *outputs[place];
    node->in_place[place] = false;
    made.stop_gradient = !IsFloat(made.tensor().dtype);
    made.node = node;
    made.output = place;
  }
}

}  // namespace

ValuePtr MakeValue(Tensor tensor) {
  auto value = std::make_shared<RuntimeValue>();
  value->buffer = std::make_shared<Buffer>();
  value->buffer->tensor = std::move(tensor);
  return value;
}

std::shared_ptr<const TracedOp> MakeTracedOp(std::shared_ptr<Program> program, proto::OpDesc op,
                                             const std::vector<VarType>& inputs,
                                             const std::vector<VarType>& outputs) {
  const OpDef& def = GetOp(op.type());
  auto traced = std::make_shared<TracedOp>();
  traced->id = NextNumber();
  // For a gradient op without a gradient the backward pass reports it.
  traced->has_gradient = def.grad != nullptr || op.type().ends_with("_grad");
  const std::vector<std::string> reads = VarNames(op.inputs()), writes = VarNames(op.outputs());
  std::vector<std::string> fetches;
  for (uint32_t i = 0; i < writes.size(); ++i) {
    if (writes[i].empty()) continue;
    if (outputs[i].dtype == DType::kNone) {
      traced->made.push_back(i);
      fetches.push_back(writes[i]);
    } else {
      traced->written.emplace_back(i, writes[i]);
      CreateVar(*program, writes[i], outputs[i], true);
    }
  }
  std::vector<FeedType> feeds;
  for (uint32_t i = 0; i < reads.size(); ++i) {
    if (reads[i].empty() || program->FindVarHere(0, reads[i]) != nullptr) continue;
    CreateVar(*program, reads[i], inputs[i], false);
    traced->fed.push_back(i);
    feeds.push_back({reads[i], inputs[i]});
  }
  AppendOp(*program, 0, std::move(op));
  traced->program = program;
  std::shared_ptr<Plan> plan = Compile(std::move(program), feeds, fetches);
  JoinTraced(*plan);
  traced->plan = std::make_unique<CompiledPlan>(std::move(plan));
  size_t& bytes = traced->bytes;
  for (const SlotPlan& slot : traced->plan->plan().slots)
    bytes += slot.type.dims.known() ? Tensor(slot.type).bytes() : kBrief;
  // Not ops that call back: a hook may be set while they run.
  traced->brief = !def.side_effect && !def.own_test && bytes < kBrief;
  return traced;
}

void RunTracedOp(const std::shared_ptr<const TracedOp>& op, std::span<const ValuePtr> inputs,
                 std::span<ValuePtr> outputs, bool record) {
  record = record && op->has_gradient &&
           std::any_of(inputs.begin(), inputs.end(),
                       [](const ValuePtr& input) { return input->differentiable(); });
  // Usually few enough for the stack.
  std::array<std::byte, 1024> stack;
  std::pmr::monotonic_buffer_resource memory(stack.data(), stack.size());
  std::pmr::vector<void*> feeds(&memory);
  feeds.reserve(op->fed.size());
  for (const uint32_t place : op->fed) feeds.push_back(inputs[place]->tensor().data);
  Few<uint32_t> input_writes;
  if (record) {
    for (const ValuePtr& input : inputs)
      input_writes.push_back(input->buffer->writes.load(std::memory_order_relaxed));
  }
  std::pmr::vector<Tensor> made(op->made.size(), &memory);
  if (op->written.empty()) {
    static Scope& none = *new Scope;  // the plan has nothing in it
    op->plan->Run(feeds, none, made);
  } else {
    Scope scope;
    for (const auto& [place, name] : op->written) {
      // Borrowed: the plan's frame, which is kept, must not keep the memory of a freed model.
      Tensor borrowed = outputs[place]->tensor();
      borrowed.owner = nullptr;
      scope.Set(name, std::move(borrowed));
    }
    op->plan->Run(feeds, scope, made);
    for (const auto& [place, name] : op->written)
      outputs[place]->buffer->writes.fetch_add(1, std::memory_order_relaxed);
  }
  for (size_t i = 0; i < made.size(); ++i) outputs[op->made[i]] = MakeValue(std::move(made[i]));
  if (record) Record(op, inputs, outputs, input_writes);
}

[[gnu::cold]] bool CountKept(const TracedOp& op, std::span<const ValuePtr> outputs) {
  const TapeNode* const node = op.made.empty() ? nullptr : outputs[op.made[0]]->node.get();
  if (node == nullptr) return true;
  bool fits = true;
  const auto count = [&](Buffer& buffer) {
    if (buffer.counted != 0) return;
    // The value's and the op's own objects take about as much as this.
    constexpr size_t kObjects = sizeof(TapeNode) + sizeof(RuntimeValue) + sizeof(Buffer) + 256;
    buffer.counted =
        static_cast<uint32_t>((buffer.tensor.bytes() + kObjects) / Buffer::kCountedUnit + 1);
    fits = StackMemory::Add(buffer.counted * Buffer::kCountedUnit) && fits;
  };
  for (const uint32_t place : op.made) count(*outputs[place]->buffer);
  // Parameters were there before, and results of recorded ops have been counted.
  for (size_t i = 0; i < node->inputs.size(); ++i) {
    if (!node->wanted[i] && node->inputs[i]->node == nullptr) count(*node->inputs[i]->buffer);
  }
  return fits;
}

// Otherwise a long chain would be freed by deeply nested calls.
TapeNode::~TapeNode() {
  std::vector<ValuePtr> pending = std::move(inputs);
  while (!pending.empty()) {
    const ValuePtr value = std::move(pending.back());
    pending.pop_back();
    if (value.use_count() != 1 || value->node == nullptr || value->node.use_count() != 1) continue;
    for (ValuePtr& input : value->node->inputs) pending.push_back(std::move(input));
    value->node->inputs.clear();
  }
}

void TapeNode::Release() {
  released = true;
  outputs.clear();
  TapeNode last;  // frees them
  last.inputs = std::move(inputs);
  inputs.clear();
}

}  // namespace opstep
