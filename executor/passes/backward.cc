#include "passes/backward.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ops/infer.h"
#include "ops/op.h"
#include "passes/build.h"

namespace opstep {
namespace {

bool HasBlock(const proto::OpDesc& op) {
  return std::any_of(op.attrs().begin(), op.attrs().end(), [](const proto::Attr& attr) {
    return attr.value_case() == proto::Attr::kBlock;
  });
}

class Backward {
 public:
  Backward(Program& program, std::string loss) : program_(program), loss_(std::move(loss)) {
    // A copy: the block grows while gradient ops are added.
    ops_.assign(program.block(0).ops().begin(), program.block(0).ops().end());
    for (size_t i = 0; i < ops_.size(); ++i) {
      for (const std::string& name : FlatOutputs(ops_[i]))
        writers_[name].push_back(static_cast<int>(i));
    }
  }

  std::vector<std::pair<std::string, std::string>> Run(const std::vector<std::string>& wanted) {
    CheckLoss();
    FindPath(wanted);
    ChooseNames();
    Seed();
    for (int i = static_cast<int>(ops_.size()) - 1; i >= 0; --i) {
      if (on_path_[i]) Differentiate(i);
    }
    std::vector<std::pair<std::string, std::string>> result;
    for (const std::string& name : sources_) {
      if (Finish(name)) result.emplace_back(name, Grad(name));
    }
    for (const std::string& name : wanted) {
      OPSTEP_CHECK(given_.count(name) != 0, "'", loss_, "' does not depend on '", name,
                   "', so there is no gradient for it");
    }
    return result;
  }

 private:
  class Rule;

  void CheckLoss() const {
    const proto::VarDesc* var = program_.FindVarHere(0, loss_);
    OPSTEP_CHECK(var != nullptr, "'", loss_, "' is no variable of the program's first block");
    const VarType type = TypeOf(*var);
    OPSTEP_CHECK(type.dims.known() && type.dims.numel() == 1 && IsFloat(type.dtype),
                 "a loss must be one float, but '", loss_, "' is ", type.ToString(),
                 ": take its mean or sum first");
    OPSTEP_CHECK(writers_.count(loss_) != 0, "no op computes '", loss_, "'");
    OPSTEP_CHECK(program_.FindVarHere(0, GradName(loss_)) == nullptr, "the gradient of '", loss_,
                 "' is in the program already");
  }

  // Ops between the sources and the loss, and how many gradients each variable will get.
  void FindPath(const std::vector<std::string>& wanted) {
    sources_ = wanted;
    if (wanted.empty()) {
      for (const proto::VarDesc& var : program_.block(0).vars()) {
        if (var.parameter() && var.trainable()) sources_.push_back(var.name());
      }
    }
    std::unordered_set<std::string> depends(sources_.begin(), sources_.end());
    std::vector<bool> forward(ops_.size());
    for (size_t i = 0; i < ops_.size(); ++i) {
      const std::vector<std::string> inputs = FlatInputs(ops_[i]);
      forward[i] = std::any_of(inputs.begin(), inputs.end(),
                               [&](const std::string& name) { return depends.count(name) != 0; }) &&
                   (GetOp(ops_[i].type()).grad != nullptr || HasBlock(ops_[i]));
      if (!forward[i]) continue;
      for (const std::string& name : FlatOutputs(ops_[i])) {
        if (!name.empty() && Differentiable(name)) depends.insert(name);
      }
    }
    std::unordered_set<std::string> leads{loss_};
    on_path_.assign(ops_.size(), false);
    for (int i = static_cast<int>(ops_.size()) - 1; i >= 0; --i) {
      const std::vector<std::string> outputs = FlatOutputs(ops_[i]);
      const bool reaches =
          std::any_of(outputs.begin(), outputs.end(), [&](const std::string& name) {
            return leads.count(name) != 0 && depends.count(name) != 0;
          });
      if (!forward[i] || !reaches) continue;
      OPSTEP_CHECK(GetOp(ops_[i].type()).grad != nullptr, "[", ops_[i].type(),
                   "] has no gradient, but '", loss_, "' depends on a parameter through it",
                   program_.Place(ops_[i]));
      on_path_[i] = true;
      for (const std::string& name : FlatInputs(ops_[i])) {
        if (depends.count(name) == 0) continue;
        leads.insert(name);
        ++expected_[name];
      }
    }
  }

  // Gradients of another loss may be there already and still be wanted: ours get a number then.
  void ChooseNames() {
    const auto taken = [&](const std::string& name) {
      return program_.FindVarHere(0, Grad(name)) != nullptr ||
             program_.FindVarHere(0, Grad(name) + "@1") != nullptr;
    };
    const auto any_taken = [&] {
      return taken(loss_) || std::any_of(expected_.begin(), expected_.end(),
                                         [&](const auto& it) { return taken(it.first); });
    };
    for (int i = 1; any_taken(); ++i) suffix_ = Cat("_", i);
  }

  std::string Grad(const std::string& name) const { return GradName(name) + suffix_; }

  // How often a variable has been written before an op runs.
  int Version(const std::string& name, int index) const {
    const auto it = writers_.find(name);
    if (it == writers_.end()) return 0;
    const std::vector<int>& writers = it->second;
    return static_cast<int>(std::lower_bound(writers.begin(), writers.end(), index) -
                            writers.begin());
  }

  bool Differentiable(const std::string& name) const {
    const proto::VarDesc* var = program_.FindVarHere(0, name);
    return var != nullptr && !var->stop_gradient() && IsFloat(static_cast<DType>(var->dtype()));
  }

  proto::OpDesc GradientOp(const proto::OpDesc& forward, std::string type,
                           const std::string& name) const {
    proto::OpDesc op;
    op.set_type(std::move(type));
    op.set_name(program_.UniqueOpName(name));
    op.set_forward_op(forward.id());
    *op.mutable_stack() = forward.stack();
    return op;
  }

  void Seed() {
    const proto::OpDesc& writer = ops_[writers_.at(loss_).back()];
    const VarType type = TypeOf(*program_.FindVarHere(0, loss_));
    proto::OpDesc op =
        GradientOp(writer, GetOp(OpRole::kFill).schema.type, writer.name() + ".grad_seed");
    *op.add_attrs() = DTypeAttr("dtype", type.dtype);
    *op.add_attrs() = IntsAttr("shape", {type.dims.begin(), type.dims.end()});
    *op.add_attrs() = FloatAttr("value", 1.0);
    proto::Slot& out = *op.add_outputs();
    out.set_name(GetOp(OpRole::kFill).schema.outputs[0].name);
    out.add_vars(Grad(loss_));
    AppendOp(program_, 0, std::move(op));
    given_[loss_] = {Grad(loss_)};
    version_[loss_] = static_cast<int>(writers_.at(loss_).size());
    finished_.insert(loss_);
  }

  // A fresh name for one more gradient of a variable, as an op read it.
  std::string NextGradient(const std::string& name, int reader) {
    const int version = version_.try_emplace(name, Version(name, reader)).first->second;
    OPSTEP_CHECK(version == Version(name, reader), "'", name, "' is overwritten on the way to '",
                 loss_, "', so its gradient is not defined: write into a new variable",
                 program_.Place(ops_[reader]));
    std::vector<std::string>& given = given_[name];
    std::string grad = Grad(name);
    if (expected_[name] > 1) grad += Cat("@", given.size() + 1);
    given.push_back(grad);
    return grad;
  }

  // Adds up what has come; false when nothing has.
  bool Finish(const std::string& name) {
    const auto it = given_.find(name);
    if (it == given_.end()) return false;
    if (!finished_.insert(name).second || expected_[name] <= 1) return true;
    const proto::OpDesc& forward = *last_forward_.at(name);
    const OpSchema& sum = GetOp(OpRole::kSum).schema;
    proto::OpDesc op = GradientOp(forward, sum.type, name + ".grad_sum");
    proto::Slot& in = *op.add_inputs();
    in.set_name(sum.inputs[0].name);
    for (const std::string& part : it->second) in.add_vars(part);
    proto::Slot& out = *op.add_outputs();
    out.set_name(sum.outputs[0].name);
    out.add_vars(Grad(name));
    AppendOp(program_, 0, std::move(op));
    return true;
  }

  void Differentiate(int index);

  Program& program_;
  const std::string loss_;
  std::vector<proto::OpDesc> ops_;
  std::vector<bool> on_path_;
  std::vector<std::string> sources_;
  std::unordered_map<std::string, std::vector<int>> writers_;
  // Which of a variable's values its gradients are for.
  std::unordered_map<std::string, int> version_;
  std::string suffix_;
  std::unordered_map<std::string, int> expected_;
  std::unordered_map<std::string, std::vector<std::string>> given_;
  std::unordered_map<std::string, const proto::OpDesc*> last_forward_;
  std::unordered_set<std::string> finished_;
};

// What a gradient rule sees of the pass.
class Backward::Rule : public GradContext {
 public:
  Rule(Backward& pass, int index) : pass_(pass), index_(index), op_(pass.ops_[index]) {}

  const OpView& op() const override { return op_; }

  std::string OutGrad(std::string_view slot, int i) const override {
    const std::string name = op_.Outputs(slot).at(i);
    return pass_.given_.count(name) != 0 ? pass_.Grad(name) : "";
  }

  std::string InGrad(std::string_view slot, int i) const override {
    const std::vector<std::string> names = op_.Inputs(slot);
    if (i >= static_cast<int>(names.size()) || pass_.expected_.count(names[i]) == 0) return "";
    // A rule may ask twice for the gradient of the same place.
    const auto [it, added] = names_.try_emplace(Cat(slot, "/", i));
    if (added) it->second = pass_.NextGradient(names[i], index_);
    pass_.last_forward_[names[i]] = &op_.desc();
    return it->second;
  }

  void Emit(std::string type, std::vector<std::pair<std::string, Names>> inputs,
            std::vector<std::pair<std::string, Names>> outputs,
            std::vector<proto::Attr> attrs) override {
    proto::OpDesc op = pass_.GradientOp(op_.desc(), std::move(type), op_.desc().name() + ".grad");
    const OpSchema& schema = GetOp(op.type()).schema;
    for (auto& [slot, names] : inputs) {
      proto::Slot& desc = *op.add_inputs();
      desc.set_name(slot);
      const SlotSchema* known = schema.FindInput(slot);
      for (std::string& name : names) {
        CheckNotOverwritten(name, known != nullptr && known->shape_only);
        desc.add_vars(std::move(name));
      }
    }
    bool any = false;
    for (auto& [slot, names] : outputs) {
      proto::Slot& desc = *op.add_outputs();
      desc.set_name(slot);
      for (std::string& name : names) {
        any = any || !name.empty();
        desc.add_vars(std::move(name));
      }
    }
    // Attributes that the gradient op does not have are of no use to it.
    for (proto::Attr& attr : attrs) {
      if (schema.FindAttr(attr.name()) != nullptr) *op.add_attrs() = std::move(attr);
    }
    if (any) AppendOp(pass_.program_, 0, std::move(op));
  }

 private:
  // The gradient op would see another value than the forward op saw.
  void CheckNotOverwritten(const std::string& name, bool shape_only) const {
    const auto it = pass_.writers_.find(name);
    if (shape_only || it == pass_.writers_.end() || it->second.back() <= index_) return;
    const proto::OpDesc& writer = pass_.ops_[it->second.back()];
    Fail("'", name, "' is overwritten by op #", writer.id(), " ", writer.name(),
         " after it was used, so the gradient would be wrong: write into a new variable",
         pass_.program_.Place(op_.desc()));
  }

  Backward& pass_;
  const int index_;
  const OpView op_;
  mutable std::unordered_map<std::string, std::string> names_;
};

void Backward::Differentiate(int index) {
  const proto::OpDesc& op = ops_[index];
  bool any = false;
  for (const std::string& name : FlatOutputs(op)) {
    if (name.empty()) continue;
    OPSTEP_CHECK(
        given_.count(name) == 0 || version_.at(name) == Version(name, index + 1), "'", name,
        "' is written more than once, so its gradient is not defined: write into a new variable",
        program_.Place(op));
    any = Finish(name) || any;
  }
  if (!any) return;
  Rule rule(*this, index);
  GetOp(op.type()).grad(rule);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> AppendBackward(
    Program& program, const std::string& loss, const std::vector<std::string>& wanted) {
  const proto::ProgramDesc before = program.desc();
  try {
    return Backward(program, loss).Run(wanted);
  } catch (...) {
    program.Restore(before);
    throw;
  }
}

}  // namespace opstep
