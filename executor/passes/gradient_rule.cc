// GradientRule: versions in the names of variables, emitted ops.
#include "passes/gradient_rule.h"

#include <charconv>

#include "passes/build.h"

namespace opstep {
namespace {

// Between a variable's name and its version; no name holds it.
constexpr char kMark = '\x01';

std::string Marked(const Value& value) {
  return value.name.empty() ? "" : value.name + kMark + std::to_string(value.version);
}

bool IsMarked(const std::string& name) { return name.find(kMark) != std::string::npos; }

Value Unmarked(const std::string& name) {
  const size_t at = name.find(kMark);
  if (at == std::string::npos) return {name, 0};
  Value value{name.substr(0, at), 0};
  std::from_chars(name.data() + at + 1, name.data() + name.size(), value.version);
  return value;
}

proto::OpDesc Shown(const BlockGradient& pass, const proto::OpDesc& op, int index) {
  proto::OpDesc shown = op;
  for (proto::Slot& slot : *shown.mutable_inputs()) {
    for (std::string& name : *slot.mutable_vars()) name = Marked({name, pass.Version(name, index)});
  }
  for (proto::Slot& slot : *shown.mutable_outputs()) {
    for (std::string& name : *slot.mutable_vars())
      name = Marked({name, pass.Version(name, index + 1)});
  }
  return shown;
}

}  // namespace

GradientRule::GradientRule(BlockGradient& pass, int index)
    : pass_(pass), index_(index), shown_(Shown(pass, pass.ops_[index], index)), op_(shown_) {}

GradientRule::~GradientRule() = default;

std::string GradientRule::OutGrad(std::string_view slot, int i) const {
  const Value value = Unmarked(op_.Outputs(slot).at(i));
  return pass_.parts_.count(value) != 0 ? pass_.NameFor(value) : "";
}

std::string GradientRule::InGrad(std::string_view slot, int i) const {
  const std::vector<std::string> names = op_.Inputs(slot);
  if (i >= static_cast<int>(names.size())) return "";
  const Value value = Unmarked(names[i]);
  if (pass_.expected_.count(value) == 0) return "";
  // A rule may ask twice for the gradient of the same place.
  const auto [it, added] = in_grads_.try_emplace({std::string(slot), i});
  if (added) it->second = pass_.NextPart(value);
  return it->second;
}

void GradientRule::Withdraw() {
  for (const auto& [place, part] : in_grads_) {
    if (written_.count(part) == 0)
      pass_.DropPart(Unmarked(op_.Inputs(place.first)[place.second]), part);
  }
}

std::string GradientRule::Resolve(const std::string& name) const {
  return IsMarked(name) ? pass_.Reference(Unmarked(name)) : name;
}

void GradientRule::Emit(std::string type, std::vector<std::pair<std::string, Names>> inputs,
                        std::vector<std::pair<std::string, Names>> outputs,
                        std::vector<proto::Attr> attrs) {
  proto::OpDesc op = pass_.MakeOp(forward(), std::move(type), forward().name() + ".grad");
  const OpSchema& schema = GetOp(op.type()).schema;
  bool any = false;
  for (auto& [slot, names] : outputs) {
    proto::Slot& desc = *op.add_outputs();
    desc.set_name(slot);
    for (std::string& name : names) {
      any = any || !name.empty();
      written_.insert(name);
      desc.add_vars(std::move(name));
    }
  }
  if (!any && schema.outputs.size() > 0 && outputs.size() > 0) return;
  for (auto& [slot, names] : inputs) {
    proto::Slot& desc = *op.add_inputs();
    desc.set_name(slot);
    const SlotSchema* known = schema.FindInput(slot);
    const bool shape_only = known != nullptr && known->shape_only && pass_.outer_ == nullptr;
    for (const std::string& name : names) {
      desc.add_vars(shape_only && IsMarked(name) ? Unmarked(name).name : Resolve(name));
    }
  }
  // Skips attributes that the gradient op does not have.
  for (proto::Attr& attr : attrs) {
    if (schema.FindAttr(attr.name()) != nullptr) *op.add_attrs() = std::move(attr);
  }
  AppendOp(pass_.program_, target(), std::move(op));
}

std::string GradientRule::Forward(const std::string& name) {
  if (IsMarked(name) || inner_ == nullptr) return Resolve(name);
  return inner_->Reference({name, 0});
}

std::string GradientRule::Zeros(const std::string& like) {
  const OpSchema& zeros = GetOp(OpRole::kZeros).schema;
  std::string out = Fresh(GradName(Unmarked(like).name));
  Emit(zeros.type, {{zeros.inputs[0].name, {Forward(like)}}}, {{zeros.outputs[0].name, {out}}}, {});
  return out;
}

void GradientRule::SetZero(const std::string& gradient) {
  const OpSchema& zeros = GetOp(OpRole::kZeros).schema;
  Emit(zeros.type, {{zeros.inputs[0].name, {gradient}}}, {{zeros.outputs[0].name, {gradient}}}, {});
}

std::string GradientRule::Copy(const std::string& from, const std::string& to) {
  const OpSchema& copy = GetOp(OpRole::kCopy).schema;
  std::string out = to.empty() ? Fresh(from) : to;
  Emit(copy.type, {{copy.inputs[0].name, {from}}}, {{copy.outputs[0].name, {out}}}, {});
  return out;
}

void GradientRule::AddTo(const std::string& sum, const std::string& term) {
  const OpSchema& add = GetOp(OpRole::kAdd).schema;
  Emit(add.type, {{add.inputs[0].name, {sum}}, {add.inputs[1].name, {term}}},
       {{add.outputs[0].name, {sum}}}, {});
}

std::string GradientRule::Fresh(const std::string& prefix) {
  BlockGradient& where = inner_ == nullptr ? pass_ : *inner_;
  std::string name = where.FreshVar(target(), prefix);
  where.chosen_.insert(name);
  return name;
}

std::string GradientRule::AddOutput(const std::string& slot) {
  // Another loss may have requested it before.
  const std::vector<std::string> there =
      OpView(*pass_.program_.FindOp(forward().id())).Outputs(slot);
  if (!there.empty()) return Marked({there[0], pass_.Version(there[0], index_ + 1)});
  const std::string name = pass_.FreshVar(pass_.block_, Cat(forward().name(), ".", slot));
  opstep::AddOutput(pass_.program_, forward().id(), slot, name);
  pass_.writers_[name].push_back(index_);
  return Marked({name, 1});
}

void GradientRule::BeginBlock(int forward) {
  const int target = pass_.program_.CreateBlock(this->target());
  inner_ = std::make_unique<BlockGradient>(pass_.program_, forward, target, &pass_, index_);
}

std::string GradientRule::Declare(const std::string& prefix, const std::string& like) {
  proto::VarDesc var;
  var.set_name(Fresh(prefix));
  SetType(var, TypeOf(*pass_.program_.FindVar(inner_->block_, Unmarked(like).name)));
  return pass_.program_.CreateVar(target(), std::move(var)).name();
}

Names GradientRule::Reached(int forward, const Names& ends) {
  Names names;
  for (const std::string& end : ends) names.push_back(Unmarked(end).name);
  return BlockGradient(pass_.program_, forward, pass_.target_, &pass_, index_).Reached(names);
}

Names GradientRule::Differentiate(const std::vector<std::pair<std::string, std::string>>& seeds,
                                  const Names& wanted) {
  BlockGradient::Seeds ends;
  for (const auto& [name, gradient] : seeds) ends.emplace_back(Unmarked(name).name, gradient);
  std::set<Value> sources;
  for (const std::string& name : wanted) sources.insert({Unmarked(name).name, 0});
  inner_->Run(ends, sources);
  Names gradients;
  for (const std::string& name : wanted)
    gradients.push_back(inner_->Gradient({Unmarked(name).name, 0}));
  return gradients;
}

int GradientRule::EndBlock() {
  const int block = inner_->target_;
  inner_ = nullptr;
  return block;
}

}  // namespace opstep
