#include "passes/select.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/verify.h"
#include "ops/infer.h"
#include "ops/op.h"
#include "passes/captures.h"

namespace opstep {
namespace {

using NameSet = std::unordered_set<std::string>;

std::vector<std::string> Given(std::vector<std::string> names) {
  std::erase(names, "");
  return names;
}

std::vector<std::string> Inputs(const proto::OpDesc& op) { return Given(FlatInputs(op)); }
std::vector<std::string> Outputs(const proto::OpDesc& op) { return Given(FlatOutputs(op)); }

bool Has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool AnyIn(const std::vector<std::string>& names, const NameSet& set) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return set.count(name) != 0; });
}

// What belongs to a ragged variable of block 0 goes where it goes: its sequences' offsets and
// steps.
class Companions {
 public:
  explicit Companions(const proto::ProgramDesc& program) {
    for (const proto::VarDesc& var : program.blocks(0).vars()) {
      for (const proto::LodLevel& level : var.lod()) {
        of_[var.name()].insert(of_[var.name()].end(), {level.offsets(), level.steps()});
      }
    }
  }

  void AddTo(NameSet& names, const std::string& name) const {
    const auto found = of_.find(name);
    if (found != of_.end()) names.insert(found->second.begin(), found->second.end());
  }

 private:
  std::unordered_map<std::string, std::vector<std::string>> of_;
};

// Calls f for the op and all ops in the blocks that it runs.
template <typename F>
void Within(const proto::ProgramDesc& program, const proto::OpDesc& op, F&& f) {
  f(op);
  for (const int block : OpView(op).Blocks()) {
    for (const proto::OpDesc& inner : program.blocks(block).ops()) Within(program, inner, f);
  }
}

NameSet NamesIn(const proto::ProgramDesc& program, const proto::OpDesc& op) {
  NameSet names;
  Within(program, op, [&](const proto::OpDesc& inner) {
    for (std::string& name : Inputs(inner)) names.insert(std::move(name));
    for (std::string& name : Outputs(inner)) names.insert(std::move(name));
  });
  return names;
}

// Copies a block, and the blocks that its ops run, to the end of `to`.
void CopyBlock(const proto::ProgramDesc& from, int block, int parent, proto::ProgramDesc& to) {
  const int index = to.blocks_size();
  *to.add_blocks() = from.blocks(block);
  to.mutable_blocks(index)->set_parent(parent);
  for (int i = 0; i < to.blocks(index).ops_size(); ++i) {
    for (int a = 0; a < to.blocks(index).ops(i).attrs_size(); ++a) {
      // By value: `to` grows, and its parts move.
      proto::Attr attr = to.blocks(index).ops(i).attrs(a);
      if (attr.value_case() == proto::Attr::kBlock) {
        const int child = attr.block();
        attr.set_block(to.blocks_size());
        CopyBlock(from, child, index, to);
      }
      for (int b = 0; b < attr.blocks().values_size(); ++b) {
        const int child = static_cast<int>(attr.blocks().values(b));
        attr.mutable_blocks()->set_values(b, to.blocks_size());
        CopyBlock(from, child, index, to);
      }
      *to.mutable_blocks(index)->mutable_ops(i)->mutable_attrs(a) = attr;
    }
  }
}

// The program with the ops of block 0 that are kept.
proto::ProgramDesc Keep(const proto::ProgramDesc& program, const std::vector<bool>& keep,
                        const NameSet& wanted) {
  NameSet used = wanted, unused;
  proto::ProgramDesc chosen = program;
  proto::BlockDesc& block = *chosen.mutable_blocks(0);
  block.clear_ops();
  block.clear_vars();
  for (int i = 0; i < program.blocks(0).ops_size(); ++i) {
    const proto::OpDesc& op = program.blocks(0).ops(i);
    (keep[i] ? used : unused).merge(NamesIn(program, op));
    if (keep[i]) *block.add_ops() = op;
  }
  for (const proto::VarDesc& var : program.blocks(0).vars()) {
    if (used.count(var.name()) != 0 || unused.count(var.name()) == 0) *block.add_vars() = var;
  }
  proto::ProgramDesc result = chosen;
  result.clear_blocks();
  CopyBlock(chosen, 0, -1, result);
  return result;
}

// Takes out what saves values for gradients that are not there.
void DropUnusedStacks(proto::ProgramDesc& program) {
  NameSet needed;
  for (const proto::BlockDesc& block : program.blocks()) {
    for (const proto::OpDesc& op : block.ops()) {
      if (GetOp(op.type()).role == OpRole::kPop) needed.insert(Inputs(op)[0]);
    }
  }
  for (proto::BlockDesc& block : *program.mutable_blocks()) {
    auto& ops = *block.mutable_ops();
    ops.erase(std::remove_if(ops.begin(), ops.end(),
                             [&](const proto::OpDesc& op) {
                               return GetOp(op.type()).role == OpRole::kPush &&
                                      needed.count(Outputs(op)[0]) == 0;
                             }),
              ops.end());
    auto& vars = *block.mutable_vars();
    vars.erase(std::remove_if(vars.begin(), vars.end(),
                              [&](const proto::VarDesc& var) {
                                return var.kind() == proto::STACK && needed.count(var.name()) == 0;
                              }),
               vars.end());
  }
  RefreshCaptures(program);
}

// Takes out slots; gives the names of their variables.
template <typename F>
void Drop(google::protobuf::RepeatedPtrField<proto::Slot>& slots, NameSet& dropped, F&& which) {
  const auto end = std::remove_if(slots.begin(), slots.end(), [&](const proto::Slot& slot) {
    if (!which(slot)) return false;
    dropped.insert(slot.vars().begin(), slot.vars().end());
    return true;
  });
  slots.erase(end, slots.end());
}

// Tells ops that know the difference that this is a test, and takes from them what they keep
// between steps of training: optional outputs in place of inputs, optional inputs out of the scope
// that are no parameters. Gives their names.
NameSet EndTraining(proto::ProgramDesc& program) {
  NameSet states, dropped;
  for (const proto::VarDesc& var : program.blocks(0).vars()) {
    if (var.persistable() && !var.parameter()) states.insert(var.name());
  }
  for (proto::BlockDesc& block : *program.mutable_blocks()) {
    for (proto::OpDesc& op : *block.mutable_ops()) {
      bool told = false;
      for (proto::Attr& attr : *op.mutable_attrs()) {
        const bool is_test = attr.name() == "is_test", training = attr.name() == "training_mode";
        if (attr.value_case() != proto::Attr::kB || !(is_test || training)) continue;
        attr.set_b(is_test);
        told = true;
      }
      if (!told) continue;
      const OpSchema& schema = GetOp(op.type()).schema;
      Drop(*op.mutable_outputs(), dropped, [&](const proto::Slot& slot) {
        const SlotSchema* known = schema.FindOutput(slot.name());
        return known->optional && !known->inplace_of.empty();
      });
      Drop(*op.mutable_inputs(), dropped, [&](const proto::Slot& slot) {
        return schema.FindInput(slot.name())->optional && slot.vars_size() == 1 &&
               states.count(slot.vars(0)) != 0;
      });
    }
  }
  return dropped;
}

}  // namespace

proto::ProgramDesc ForTest(const proto::ProgramDesc& trained) {
  proto::ProgramDesc program = trained;
  const NameSet states = EndTraining(program);
  const auto& ops = program.blocks(0).ops();
  const Companions companions(program);
  std::vector<bool> keep(ops.size(), true);
  // Gradients, and what is made of them. A parameter after its update counts as the parameter.
  NameSet gradients;
  std::unordered_set<uint32_t> forward;
  for (int i = 0; i < ops.size(); ++i) {
    keep[i] = ops[i].forward_op() == 0 && !AnyIn(Inputs(ops[i]), gradients);
    if (ops[i].forward_op() != 0) forward.insert(ops[i].forward_op());
    if (keep[i]) continue;
    const std::vector<std::string> inputs = Inputs(ops[i]);
    for (const std::string& name : Outputs(ops[i])) {
      if (!Has(inputs, name)) gradients.insert(name);
    }
  }
  // Ops whose results only those read that are gone already. What has a gradient is no such op: the
  // loss itself is often read by gradients only.
  for (bool changed = true; changed;) {
    changed = false;
    NameSet read, read_by_gone = states;
    for (int i = 0; i < ops.size(); ++i) {
      const std::vector<std::string> outputs = Outputs(ops[i]);
      for (const std::string& name : Inputs(ops[i])) {
        if (!keep[i] || !Has(outputs, name)) (keep[i] ? read : read_by_gone).insert(name);
      }
      for (const std::string& name : outputs) {
        if (keep[i]) companions.AddTo(read, name);
      }
    }
    for (int i = 0; i < ops.size(); ++i) {
      const std::vector<std::string> outputs = Outputs(ops[i]);
      if (!keep[i] || outputs.empty() || forward.count(ops[i].id()) != 0) continue;
      if (AnyIn(outputs, read)) continue;
      keep[i] = !AnyIn(outputs, read_by_gone);
      changed = changed || !keep[i];
    }
  }
  proto::ProgramDesc result = Keep(program, keep, {});
  DropUnusedStacks(result);
  Verify(result, &FindSchema);
  return result;
}

proto::ProgramDesc Prune(const proto::ProgramDesc& program,
                         const std::vector<std::string>& targets) {
  std::vector<std::string> names;
  for (const proto::VarDesc& var : program.blocks(0).vars()) names.push_back(var.name());
  for (const std::string& target : targets) {
    if (Has(names, target)) continue;
    const std::string near = Nearest(target, names);
    Fail("cannot prune to '", target, "': program '", program.name(), "' has no such variable",
         near.empty() ? "" : "; did you mean '" + near + "'?");
  }
  const auto& ops = program.blocks(0).ops();
  const Companions companions(program);
  std::vector<bool> keep(ops.size(), false);
  NameSet needed(targets.begin(), targets.end());
  for (const std::string& target : targets) companions.AddTo(needed, target);
  for (int i = ops.size() - 1; i >= 0; --i) {
    const std::vector<std::string> outputs = Outputs(ops[i]);
    keep[i] = AnyIn(outputs, needed);
    if (!keep[i]) continue;
    for (const std::string& name : outputs) {
      needed.erase(name);
      companions.AddTo(needed, name);
    }
    Within(program, ops[i], [&](const proto::OpDesc& inner) {
      for (std::string& name : Inputs(inner)) {
        companions.AddTo(needed, name);
        needed.insert(std::move(name));
      }
    });
  }
  proto::ProgramDesc result = Keep(program, keep, {targets.begin(), targets.end()});
  DropUnusedStacks(result);
  Verify(result, &FindSchema);
  return result;
}

}  // namespace opstep
