// BlockGradient: gradient ops of a block in reverse, their sums, values saved for them.
#include "passes/block_gradient.h"

#include <algorithm>

#include "ops/infer.h"
#include "ops/op.h"
#include "passes/build.h"
#include "passes/gradient_rule.h"

namespace opstep {
namespace {

// Was it made by this pass? In imperative mode only its name shows it.
bool MadeAsGradient(const proto::OpDesc& op) {
  return IsGradient(op) || op.type().ends_with("_grad");
}

// An op without a gradient is a constant for the pass. A gradient op must not be: its derivative
// would be missing silently.
bool Flows(const proto::OpDesc& op) {
  return GetOp(op.type()).grad != nullptr || !OpView(op).Blocks().empty() || MadeAsGradient(op);
}

void CheckDifferentiable(const Program& program, const proto::OpDesc& op) {
  const bool blocks = !OpView(op).Blocks().empty();
  // Values that a block's gradient popped from a stack are not followed further.
  OPSTEP_CHECK(!(blocks && MadeAsGradient(op)), "[", op.type(),
               "] is the gradient of a loop or branch, which can be differentiated once only",
               program.Place(op));
  if (GetOp(op.type()).grad != nullptr) return;
  OPSTEP_CHECK(!MadeAsGradient(op), "[", op.type(),
               "] is a gradient that has no gradient itself: its op can be differentiated once "
               "only",
               program.Place(op));
  Fail("[", op.type(), "] has no gradient, but the loss depends on a parameter through it",
       program.Place(op));
}

}  // namespace

BlockGradient::BlockGradient(Program& program, int block, int target, BlockGradient* outer,
                             int outer_index)
    : program_(program), block_(block), target_(target), outer_(outer), outer_index_(outer_index) {
  ops_.assign(program.block(block).ops().begin(), program.block(block).ops().end());
  for (size_t i = 0; i < ops_.size(); ++i) {
    std::vector<std::string>& reads = reads_.emplace_back();
    std::vector<std::string>& writes = writes_.emplace_back();
    for (Arg& arg : InputArgs(ops_[i], block)) {
      // An input that only lends its shape gets no gradient there.
      if (!arg.name.empty() && !arg.inner() && !arg.slot->shape_only)
        reads.push_back(std::move(arg.name));
    }
    for (Arg& arg : OutputArgs(ops_[i], block)) {
      if (!arg.name.empty() && !arg.inner()) writes.push_back(std::move(arg.name));
    }
    for (const std::string& name : writes) writers_[name].push_back(static_cast<int>(i));
  }
}

int BlockGradient::Version(const std::string& name, int index) const {
  const auto it = writers_.find(name);
  if (it == writers_.end()) return 0;
  const std::vector<int>& writers = it->second;
  return static_cast<int>(std::lower_bound(writers.begin(), writers.end(), index) -
                          writers.begin());
}

int BlockGradient::FinalVersion(const std::string& name) const {
  return Version(name, static_cast<int>(ops_.size()));
}

std::vector<int> BlockGradient::VersionsWithGradient(const std::string& name) const {
  std::vector<int> versions;
  for (int v = 0; v <= FinalVersion(name); ++v) {
    if (parts_.count({name, v}) != 0) versions.push_back(v);
  }
  return versions;
}

bool BlockGradient::WrittenOnPath(const Value& value) const {
  return value.version > 0 && on_path_[writers_.at(value.name)[value.version - 1]];
}

bool BlockGradient::Differentiable(const std::string& name) const {
  const proto::VarDesc* var = program_.FindVar(block_, name);
  return var != nullptr && var->kind() == proto::TENSOR &&
         (!var->stop_gradient() || AskedOutside(name)) && IsFloat(static_cast<DType>(var->dtype()));
}

bool BlockGradient::AskedOutside(const std::string& name) const {
  for (const BlockGradient* pass = outer_; pass != nullptr; pass = pass->outer_) {
    if (pass->asked_.count(name) != 0) return true;
  }
  return false;
}

bool BlockGradient::IsStack(const std::string& name) const {
  const proto::VarDesc* var = program_.FindVar(block_, name);
  return var != nullptr && var->kind() == proto::STACK;
}

// Ops between the sources and the ends, and the number of gradients that each value will get.
void BlockGradient::FindPath(const std::set<Value>& sources, const std::set<Value>& ends) {
  const int n = static_cast<int>(ops_.size());
  std::set<Value> depends = sources;
  std::vector<bool> forward(ops_.size());
  for (int i = 0; i < n; ++i) {
    forward[i] = std::any_of(reads_[i].begin(), reads_[i].end(), [&](const std::string& name) {
      return depends.count({name, Version(name, i)}) != 0;
    });
    forward[i] = forward[i] && Flows(ops_[i]);
    if (!forward[i]) continue;
    for (const std::string& name : writes_[i]) {
      // A stack hands values to the gradients of a loop or branch.
      if (Differentiable(name) || IsStack(name)) depends.insert({name, Version(name, i + 1)});
    }
  }
  std::set<Value> leads = ends;
  on_path_.assign(ops_.size(), false);
  for (int i = n - 1; i >= 0; --i) {
    const bool reaches =
        std::any_of(writes_[i].begin(), writes_[i].end(), [&](const std::string& name) {
          const Value value{name, Version(name, i + 1)};
          return leads.count(value) != 0 && depends.count(value) != 0;
        });
    if (!forward[i] || !reaches) continue;
    CheckDifferentiable(program_, ops_[i]);
    on_path_[i] = true;
    for (const std::string& name : reads_[i]) {
      const Value value{name, Version(name, i)};
      if (depends.count(value) == 0) continue;
      leads.insert(value);
      ++expected_[value];
    }
  }
}

std::vector<std::string> BlockGradient::Reached(const std::vector<std::string>& ends) const {
  std::set<Value> leads;
  for (const std::string& name : ends) leads.insert({name, FinalVersion(name)});
  for (int i = static_cast<int>(ops_.size()) - 1; i >= 0; --i) {
    const bool reaches =
        std::any_of(writes_[i].begin(), writes_[i].end(), [&](const std::string& name) {
          return leads.count({name, Version(name, i + 1)}) != 0 && Differentiable(name);
        });
    if (!reaches || !Flows(ops_[i])) continue;
    for (const std::string& name : reads_[i]) {
      if (Differentiable(name)) leads.insert({name, Version(name, i)});
    }
  }
  std::vector<std::string> starts;
  for (const Value& value : leads) {
    if (value.version == 0) starts.push_back(value.name);
  }
  return starts;
}

void BlockGradient::Run(const Seeds& seeds, const std::set<Value>& sources) {
  std::set<Value> ends;
  for (const auto& [name, gradient] : seeds) ends.insert({name, FinalVersion(name)});
  for (const Value& source : sources) asked_.insert(source.name);
  FindPath(sources, ends);
  for (const auto& [name, gradient] : seeds) {
    const Value value{name, FinalVersion(name)};
    ++expected_[value];
    parts_[value].push_back(gradient);
  }
  for (const auto& [name, gradient] : seeds) {
    const Value value{name, FinalVersion(name)};
    // The only gradient needs no sum.
    if (expected_[value] == 1) names_[value] = gradient;
  }
  for (int i = static_cast<int>(ops_.size()) - 1; i >= 0; --i) {
    if (on_path_[i]) Differentiate(i);
  }
}

std::string BlockGradient::Gradient(const Value& value) {
  return Finish(value) ? NameFor(value) : "";
}

std::string BlockGradient::FreshVar(int block, const std::string& prefix) const {
  std::string name = prefix;
  for (int i = 1; program_.FindVar(block, name) != nullptr || chosen_.count(name) != 0; ++i) {
    name = Cat(prefix, "_", i);
  }
  return name;
}

std::string BlockGradient::NameFor(const Value& value) {
  const auto [it, added] = names_.try_emplace(value);
  if (added) {
    // The last value of a variable comes first and gets the plain name.
    it->second = FreshVar(target_, GradName(value.name));
    chosen_.insert(it->second);
  }
  return it->second;
}

std::string BlockGradient::NextPart(const Value& value) {
  std::vector<std::string>& parts = parts_[value];
  std::string part = NameFor(value);
  if (expected_[value] > 1) part = FreshVar(target_, Cat(part, "@", parts.size() + 1));
  parts.push_back(part);
  return part;
}

void BlockGradient::DropPart(const Value& value, const std::string& part) {
  std::vector<std::string>& parts = parts_[value];
  std::erase(parts, part);
  if (parts.empty()) parts_.erase(value);
}

// The op to which gradient ops of a value are linked: its writer, or else a reader.
const proto::OpDesc& BlockGradient::Link(const Value& value) const {
  if (value.version > 0) return ops_[writers_.at(value.name)[value.version - 1]];
  for (size_t i = 0; i < ops_.size(); ++i) {
    const std::vector<std::string>& reads = reads_[i];
    if (std::find(reads.begin(), reads.end(), value.name) != reads.end()) return ops_[i];
  }
  OPSTEP_CHECK(outer_ != nullptr, "'", value.name, "' is used by no op");
  return outer_->ops_[outer_index_];
}

bool BlockGradient::Finish(const Value& value) {
  const auto it = parts_.find(value);
  if (it == parts_.end()) return false;
  const std::string name = NameFor(value);
  if (!finished_.insert(value).second || (it->second.size() == 1 && it->second[0] == name))
    return true;
  const OpSchema& sum = GetOp(OpRole::kSum).schema;
  proto::OpDesc op = MakeOp(Link(value), sum.type, value.name + ".grad_sum");
  proto::Slot& in = *op.add_inputs();
  in.set_name(sum.inputs[0].name);
  for (const std::string& part : it->second) in.add_vars(part);
  proto::Slot& out = *op.add_outputs();
  out.set_name(sum.outputs[0].name);
  out.add_vars(name);
  AppendOp(program_, target_, std::move(op));
  return true;
}

void BlockGradient::Differentiate(int index) {
  bool any = false;
  for (const std::string& name : writes_[index]) {
    any = Finish({name, Version(name, index + 1)}) || any;
  }
  if (!any) return;
  GradientRule rule(*this, index);
  try {
    GetOp(ops_[index].type()).grad(rule);
  } catch (const Error& error) {
    // The error of an op that could not be added already names its type and place.
    std::string what = error.what();
    if (!what.starts_with("[")) what = Cat("[", ops_[index].type(), "] ", what);
    throw Error(what.ends_with(")") ? what : what + program_.Place(ops_[index]));
  }
  rule.Withdraw();
}

proto::OpDesc BlockGradient::MakeOp(const proto::OpDesc& forward, std::string type,
                                    const std::string& name) {
  proto::OpDesc op;
  op.set_type(std::move(type));
  op.set_name(program_.UniqueOpName(name));
  op.set_forward_op(forward.id());
  CopyMadeBy(forward, op);
  return op;
}

std::string BlockGradient::Reference(const Value& value) {
  const bool own = program_.FindVarHere(block_, value.name) != nullptr;
  if (outer_ == nullptr) {
    return value.version == FinalVersion(value.name) ? value.name : Save(value);
  }
  if (!own && writers_.count(value.name) == 0) {
    // The block only reads it: its value is unchanged for the op that runs the block.
    return outer_->Reference({value.name, outer_->Version(value.name, outer_index_)});
  }
  return Save(value);
}

std::string BlockGradient::Save(const Value& value) {
  const auto [it, added] = saved_.try_emplace(value);
  if (!added) return it->second;
  const proto::OpDesc& link = Link(value);
  const std::string base =
      value.version == FinalVersion(value.name) ? value.name : Cat(value.name, "@", value.version);
  const auto slot = [](auto* slots, const std::string& name, const std::string& var) {
    proto::Slot& added = *slots->Add();
    added.set_name(name);
    added.add_vars(var);
  };
  if (outer_ == nullptr) {
    const OpSchema& copy = GetOp(OpRole::kCopy).schema;
    it->second = FreshVar(target_, base);
    proto::OpDesc op = MakeOp(link, copy.type, value.name + ".save");
    slot(op.mutable_inputs(), copy.inputs[0].name, value.name);
    slot(op.mutable_outputs(), copy.outputs[0].name, it->second);
    InsertAfterWriter(value, std::move(op));
    return it->second;
  }
  const OpSchema& push = GetOp(OpRole::kPush).schema;
  const OpSchema& pop = GetOp(OpRole::kPop).schema;
  proto::VarDesc stack;
  // Next to the forward op of the outermost differentiated block.
  const BlockGradient* outermost = this;
  while (outermost->outer_ != nullptr) outermost = outermost->outer_;
  const int home = outermost->block_;
  stack.set_name(FreshVar(home, base + ".saved"));
  stack.set_kind(proto::STACK);
  SetType(stack, TypeOf(*program_.FindVar(block_, value.name)));
  program_.CreateVar(home, stack);
  proto::OpDesc save = MakeOp(link, push.type, value.name + ".save");
  slot(save.mutable_inputs(), push.inputs[0].name, value.name);
  slot(save.mutable_inputs(), push.inputs[1].name, stack.name());
  slot(save.mutable_outputs(), push.outputs[0].name, stack.name());
  InsertAfterWriter(value, std::move(save));
  it->second = FreshVar(target_, base);
  proto::OpDesc load = MakeOp(link, pop.type, value.name + ".restore");
  slot(load.mutable_inputs(), pop.inputs[0].name, stack.name());
  slot(load.mutable_outputs(), pop.outputs[0].name, it->second);
  slot(load.mutable_outputs(), pop.outputs[1].name, stack.name());
  AppendOp(program_, target_, std::move(load));
  return it->second;
}

void BlockGradient::InsertAfterWriter(const Value& value, proto::OpDesc op) {
  int position = 0;
  if (value.version > 0) {
    const uint32_t writer = Link(value).id();
    const auto& ops = program_.block(block_).ops();
    while (ops[position].id() != writer) ++position;
    ++position;
  }
  AppendOp(program_, block_, std::move(op), position);
}

}  // namespace opstep
