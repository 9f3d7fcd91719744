// Differentiates an op that is written as a formula, by the rules of the formula's ops.
#include "ops/grad/formula.h"

#include <map>
#include <set>

namespace opstep {
namespace {

// Forwards all calls of a rule to another context.
class Through : public GradContext {
 public:
  explicit Through(GradContext& g) : g_(g) {}

  const OpView& op() const override { return g_.op(); }
  std::string OutGrad(std::string_view slot, int i) const override { return g_.OutGrad(slot, i); }
  std::string InGrad(std::string_view slot, int i) const override { return g_.InGrad(slot, i); }
  void Emit(std::string type, std::vector<std::pair<std::string, Names>> inputs,
            std::vector<std::pair<std::string, Names>> outputs,
            std::vector<proto::Attr> attrs) override {
    g_.Emit(std::move(type), std::move(inputs), std::move(outputs), std::move(attrs));
  }
  std::string Forward(const std::string& name) override { return g_.Forward(name); }
  std::string Zeros(const std::string& like) override { return g_.Zeros(like); }
  void SetZero(const std::string& gradient) override { g_.SetZero(gradient); }
  std::string Copy(const std::string& from, const std::string& to) override {
    return g_.Copy(from, to);
  }
  void AddTo(const std::string& sum, const std::string& term) override { g_.AddTo(sum, term); }
  std::string Fresh(const std::string& prefix) override { return g_.Fresh(prefix); }
  std::string AddOutput(const std::string& slot) override { return g_.AddOutput(slot); }
  Names Reached(int forward, const Names& ends) override { return g_.Reached(forward, ends); }
  void BeginBlock(int forward) override { g_.BeginBlock(forward); }
  std::string Declare(const std::string& prefix, const std::string& like) override {
    return g_.Declare(prefix, like);
  }
  Names Differentiate(const std::vector<std::pair<std::string, std::string>>& seeds,
                      const Names& wanted) override {
    return g_.Differentiate(seeds, wanted);
  }
  int EndBlock() override { return g_.EndBlock(); }

 protected:
  GradContext& g_;
};

// Adds ops and remembers them, since their rules need them.
class Recorder : public Through {
 public:
  using Through::Through;

  void Emit(std::string type, std::vector<std::pair<std::string, Names>> inputs,
            std::vector<std::pair<std::string, Names>> outputs,
            std::vector<proto::Attr> attrs) override {
    proto::OpDesc& op = ops.emplace_back();
    op.set_type(type);
    op.set_name(g_.op().desc().name());
    const auto add = [](proto::Slot& slot, const std::pair<std::string, Names>& given) {
      slot.set_name(given.first);
      for (const std::string& name : given.second) slot.add_vars(name);
    };
    for (const auto& given : inputs) add(*op.add_inputs(), given);
    for (const auto& given : outputs) add(*op.add_outputs(), given);
    const OpSchema& schema = GetOp(type).schema;
    for (const proto::Attr& attr : attrs) {
      if (schema.FindAttr(attr.name()) != nullptr) *op.add_attrs() = attr;
    }
    for (const AttrSchema& known : schema.attrs) {
      if (OpView(op).FindAttr(known.name) == nullptr && known.default_value)
        *op.add_attrs() = *known.default_value;
    }
    g_.Emit(std::move(type), std::move(inputs), std::move(outputs), std::move(attrs));
  }

  std::vector<proto::OpDesc> ops;
};

// The context for the rule of one of the formula's ops. `gradients`: of the formula's variables;
// `wanted`: the variables whose gradient is wanted.
class FormulaRule : public Through {
 public:
  FormulaRule(GradContext& g, const proto::OpDesc& op,
              const std::map<std::string, std::string>& gradients,
              const std::set<std::string>& wanted)
      : Through(g), op_(op), gradients_(gradients), wanted_(wanted) {}

  const OpView& op() const override { return op_; }
  std::string OutGrad(std::string_view slot, int i) const override {
    const auto it = gradients_.find(op_.Outputs(slot).at(i));
    return it == gradients_.end() ? "" : it->second;
  }
  std::string InGrad(std::string_view slot, int i) const override {
    const Names names = op_.Inputs(slot);
    if (i >= static_cast<int>(names.size()) || wanted_.count(names[i]) == 0) return "";
    const auto [it, added] = parts_.try_emplace({std::string(slot), i});
    if (added) it->second = {names[i], g_.Fresh(Cat(op_.desc().name(), ".", op_.type()))};
    return it->second.second;
  }
  void Emit(std::string type, std::vector<std::pair<std::string, Names>> inputs,
            std::vector<std::pair<std::string, Names>> outputs,
            std::vector<proto::Attr> attrs) override {
    for (const auto& [slot, names] : outputs) given_.insert(names.begin(), names.end());
    g_.Emit(std::move(type), std::move(inputs), std::move(outputs), std::move(attrs));
  }
  std::string Copy(const std::string& from, const std::string& to) override {
    given_.insert(to);
    return g_.Copy(from, to);
  }

  // Variables that the op reads, and parts of their gradients.
  std::vector<std::pair<std::string, std::string>> Parts() const {
    std::vector<std::pair<std::string, std::string>> parts;
    for (const auto& [place, part] : parts_) {
      if (given_.count(part.second) != 0) parts.push_back(part);
    }
    return parts;
  }

 private:
  const OpView op_;
  const std::map<std::string, std::string>& gradients_;
  const std::set<std::string>& wanted_;
  mutable std::map<std::pair<std::string, int>, std::pair<std::string, std::string>> parts_;
  std::set<std::string> given_;
};

template <typename Slots, typename F>
bool AnyVariable(const Slots& slots, F&& holds) {
  for (const proto::Slot& slot : slots) {
    for (const std::string& name : slot.vars()) {
      if (holds(name)) return true;
    }
  }
  return false;
}

}  // namespace

void FormulaGradient(GradContext& g, const std::vector<std::pair<std::string, Term>>& outputs,
                     const Names& reads) {
  std::map<std::string, std::string> gradients;
  const auto add = [&](const std::string& variable, const std::string& part) {
    std::string& sum = gradients[variable];
    sum = sum.empty() ? part : (Term(sum) + Term(part)).Emit(g);
  };
  std::set<std::string> wanted;
  for (const std::string& slot : reads) {
    const std::string name = g.op().Input(slot);
    if (!name.empty() && !g.InGrad(slot).empty()) wanted.insert(name);
  }
  Recorder recorder(g);
  for (const auto& [slot, formula] : outputs) {
    const std::string seed = OutGradient(g, slot).Emit(g);
    if (!seed.empty() && formula) add(formula.Emit(recorder), seed);
  }
  for (const proto::OpDesc& op : recorder.ops) {
    if (!AnyVariable(op.inputs(), [&](const auto& name) { return wanted.count(name) != 0; }))
      continue;
    for (const proto::Slot& slot : op.outputs())
      wanted.insert(slot.vars().begin(), slot.vars().end());
  }
  for (auto op = recorder.ops.rbegin(); op != recorder.ops.rend(); ++op) {
    const auto followed = [&](const std::string& name) {
      return gradients.count(name) != 0 && wanted.count(name) != 0;
    };
    const OpDef& def = GetOp(op->type());
    if (def.grad == nullptr || !AnyVariable(op->outputs(), followed)) continue;
    FormulaRule rule(g, *op, gradients, wanted);
    def.grad(rule);
    for (const auto& [variable, part] : rule.Parts()) add(variable, part);
  }
  for (const std::string& slot : reads) {
    const auto it = gradients.find(g.op().Input(slot));
    if (it == gradients.end()) continue;
    Give(g, slot, Term(it->second));
    gradients.erase(it);  // two slots may read one variable
  }
}

}  // namespace opstep
