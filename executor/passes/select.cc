// ForTest and Prune: finds the ops that serve training only, and those that the targets need.
#include "passes/select.h"

#include <algorithm>
#include <unordered_map>

#include "ops/infer.h"
#include "ops/op.h"
#include "passes/op_removal.h"

namespace opstep {
namespace {

// ---- for testing

// Removes slots; returns the names of their variables.
template <typename F>
void Drop(google::protobuf::RepeatedPtrField<proto::Slot>& slots, NameSet& dropped, F&& which) {
  const auto end = std::remove_if(slots.begin(), slots.end(), [&](const proto::Slot& slot) {
    if (!which(slot)) return false;
    dropped.insert(slot.vars().begin(), slot.vars().end());
    return true;
  });
  slots.erase(end, slots.end());
}

// Sets ops with a test mode to test, and removes the state that they keep between training steps:
// optional outputs that update inputs, and optional inputs from the scope that are not parameters.
// Returns their names.
NameSet EndTraining(proto::ProgramDesc& program) {
  NameSet states, dropped;
  for (const proto::VarDesc& var : program.blocks(0).vars()) {
    if (var.persistable() && !var.parameter()) states.insert(var.name());
  }
  for (proto::BlockDesc& block : *program.mutable_blocks()) {
    for (proto::OpDesc& op : *block.mutable_ops()) {
      if (GetOp(op.type()).role == OpRole::kReaderLoop) {
        // A test reads all of its data, and training later continues where it was.
        const auto state = [&](const proto::Slot& slot) {
          return slot.vars_size() == 1 && states.count(slot.vars(0)) != 0;
        };
        const OpSchema& schema = GetOp(op.type()).schema;
        Drop(*op.mutable_outputs(), dropped, [&](const proto::Slot& slot) {
          return schema.FindOutput(slot.name())->optional && state(slot);
        });
        Drop(*op.mutable_inputs(), dropped, [&](const proto::Slot& slot) {
          return schema.FindInput(slot.name())->optional && state(slot);
        });
      }
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

// Finds the ops that serve training only, in all blocks.
class TrainingStep {
 public:
  // `states`: names of the variables that EndTraining removed.
  TrainingStep(const proto::ProgramDesc& program, const NameSet& states)
      : program_(program), states_(states) {
    for (const proto::BlockDesc& block : program.blocks()) {
      for (const proto::VarDesc& var : block.vars()) {
        for (const proto::LodLevel& level : var.lod()) {
          companions_[var.name()].push_back(level.offsets());
          companions_[var.name()].push_back(level.steps());
        }
      }
    }
    FindGradients(0, {});
    while (FindServants() || FindEmpty()) continue;
  }

  OpIds Gone() const {
    OpIds ids;
    for (const Node& node : nodes_) {
      if (node.gone) ids.insert(node.op->id());
    }
    return ids;
  }

 private:
  struct Node {
    const proto::OpDesc* op;
    // The ops whose blocks contain it, from the outside in.
    std::vector<size_t> around;
    std::vector<std::string> reads, writes;
    bool has_blocks = false;
    bool gone = false;
  };

  bool Inside(size_t node, size_t around) const {
    const std::vector<size_t>& all = nodes_[node].around;
    return std::find(all.begin(), all.end(), around) != all.end();
  }

  // Gradients, ops that use them, and ops that write files. A parameter after its update counts as
  // the parameter.
  void FindGradients(int block, const std::vector<size_t>& around) {
    for (const proto::OpDesc& op : program_.blocks(block).ops()) {
      const size_t index = nodes_.size();
      nodes_.push_back({&op, around, OwnInputs(op), AllOutputs(op)});
      nodes_[index].has_blocks = !OpenBlocks(op).empty();
      const bool file = GetOp(op.type()).role == OpRole::kFile && op.outputs().empty();
      // A saved value is not made for the file.
      if (!file) {
        for (const std::string& name : nodes_[index].reads) readers_[name].push_back(index);
      }
      // A ragged variable is not whole without its companions.
      for (const std::string& name : nodes_[index].writes) {
        const auto more = companions_.find(name);
        if (more == companions_.end()) continue;
        for (const std::string& companion : more->second) readers_[companion].push_back(index);
      }
      std::vector<size_t> inside = around;
      inside.push_back(index);
      for (const int inner : OpenBlocks(op)) FindGradients(inner, inside);

      if (op.forward_op() != 0) forward_.insert(op.forward_op());
      if (!IsGradient(op) && !file && !AnyIn(nodes_[index].reads, gradients_)) continue;
      Remove(index);
      const std::vector<std::string> inputs = AllInputs(op);
      for (const std::string& name : nodes_[index].writes) {
        if (!Has(inputs, name)) gradients_.insert(name);
      }
    }
  }

  void Remove(size_t index) {
    nodes_[index].gone = true;
    // The ops inside were found after it, without a gap.
    for (size_t i = index + 1; i < nodes_.size() && Inside(i, index); ++i) nodes_[i].gone = true;
  }

  // Ops whose results are read only by removed ops. Ops with a gradient do not count: often only
  // gradients read the loss itself.
  bool FindServants() {
    bool changed = false;
    for (size_t i = nodes_.size(); i-- > 0;) {
      const Node& node = nodes_[i];
      if (node.gone || forward_.count(node.op->id()) != 0) continue;
      bool read = false, read_by_gone = false;
      for (const std::string& name : node.writes) {
        // A state inside a loop does not concern the loop.
        read_by_gone = read_by_gone || (!node.has_blocks && states_.count(name) != 0);
        const auto readers = readers_.find(name);
        if (readers == readers_.end()) continue;
        for (const size_t reader : readers->second) {
          const Node& other = nodes_[reader];
          if (reader == i || Inside(reader, i)) continue;
          // A counter reads its own value; a loop reads the values that its body writes.
          if (!other.gone && Has(other.writes, name) && !Inside(i, reader)) continue;
          (other.gone ? read_by_gone : read) = true;
        }
      }
      if (read || !read_by_gone) continue;
      Remove(i);
      changed = true;
    }
    return changed;
  }

  // Branches with nothing left in them.
  bool FindEmpty() {
    bool changed = false;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].gone || !nodes_[i].has_blocks || !OwnOutputs(*nodes_[i].op).empty()) continue;
      bool any = false, left = false;
      for (size_t inner = i + 1; inner < nodes_.size() && Inside(inner, i); ++inner) {
        any = true;
        left = left || !nodes_[inner].gone;
      }
      if (!any || left) continue;
      Remove(i);
      changed = true;
    }
    return changed;
  }

  const proto::ProgramDesc& program_;
  const NameSet& states_;
  std::vector<Node> nodes_;
  std::unordered_map<std::string, std::vector<size_t>> readers_;
  std::unordered_map<std::string, std::vector<std::string>> companions_;
  NameSet gradients_;
  // Ops that have a gradient.
  OpIds forward_;
};

// ---- pruning

// Finds what the targets need, from the end of the program to its start.
class Needed {
 public:
  Needed(const proto::ProgramDesc& program, const std::vector<std::string>& targets, bool filled)
      : program_(program), filled_(filled) {
    for (const proto::BlockDesc& block : program.blocks()) {
      for (const proto::VarDesc& var : block.vars()) {
        for (const proto::LodLevel& level : var.lod()) {
          offsets_[var.name()].push_back(level.offsets());
          offsets_[var.name()].push_back(level.steps());
        }
      }
    }
    for (const std::string& target : targets) Need(target);
    const auto& ops = program.blocks(0).ops();
    for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
      Visit(*op);
      // The old value of a variable that it overwrites is not needed. Blocks may or may not write a
      // variable.
      if (kept_.count(op->id()) == 0) continue;
      const std::vector<std::string> inputs = OwnInputs(*op);
      for (const std::string& name : OwnOutputs(*op)) {
        if (!Has(inputs, name)) names_.erase(name);
      }
    }
  }

  OpIds Gone() const {
    OpIds ids;
    for (const proto::BlockDesc& block : program_.blocks()) {
      for (const proto::OpDesc& op : block.ops()) {
        if (kept_.count(op.id()) == 0) ids.insert(op.id());
      }
    }
    return ids;
  }

 private:
  bool Need(const std::string& name) {
    if (!names_.insert(name).second) return false;
    const auto more = offsets_.find(name);
    if (more != offsets_.end()) names_.insert(more->second.begin(), more->second.end());
    return true;
  }

  // Does it need something new? Then blocks that may run again must be checked again.
  bool Visit(const proto::OpDesc& op) {
    bool changed = false, inside = false;
    for (bool again = !OpenBlocks(op).empty(); again;) {
      again = false;
      for (const int block : OpenBlocks(op)) {
        const auto& ops = program_.blocks(block).ops();
        for (auto inner = ops.rbegin(); inner != ops.rend(); ++inner) {
          again = Visit(*inner) || again;
          inside = inside || kept_.count(inner->id()) != 0;
        }
      }
      // Its condition, and the values that it takes from its blocks.
      if (inside || AnyIn(OwnOutputs(op), names_)) again = Keep(op) || again;
      changed = changed || again;
    }
    const OpDef& def = GetOp(op.type());
    const bool given = def.role == OpRole::kOnce && filled_;
    if (!given && AnyIn(OwnOutputs(op), names_)) changed = Keep(op) || changed;
    return changed;
  }

  bool Keep(const proto::OpDesc& op) {
    bool changed = kept_.insert(op.id()).second;
    if (GetOp(op.type()).role == OpRole::kOnce) KeepInside(op);
    for (const std::string& name : OwnInputs(op)) changed = Need(name) || changed;
    return changed;
  }

  void KeepInside(const proto::OpDesc& op) {
    for (const int block : OpView(op).Blocks()) {
      for (const proto::OpDesc& inner : program_.blocks(block).ops()) {
        kept_.insert(inner.id());
        KeepInside(inner);
      }
    }
  }

  const proto::ProgramDesc& program_;
  // The values that ops would fill once exist already.
  const bool filled_;
  NameSet names_;
  OpIds kept_;
  std::unordered_map<std::string, std::vector<std::string>> offsets_;
};

}  // namespace

proto::ProgramDesc ForTest(const proto::ProgramDesc& trained) {
  proto::ProgramDesc program = trained;
  const NameSet states = EndTraining(program);
  return Without(program, TrainingStep(program, states).Gone(), {});
}

proto::ProgramDesc Prune(const proto::ProgramDesc& program, const std::vector<std::string>& targets,
                         bool filled) {
  std::vector<std::string> names;
  for (const proto::BlockDesc& block : program.blocks()) {
    for (const proto::VarDesc& var : block.vars()) names.push_back(var.name());
  }
  for (const std::string& target : targets) {
    if (Has(names, target)) continue;
    const std::string near = Nearest(target, names);
    Fail("cannot prune to '", target, "': program '", program.name(), "' has no such variable",
         near.empty() ? "" : "; did you mean '" + near + "'?");
  }
  return Without(program, Needed(program, targets, filled).Gone(),
                 {targets.begin(), targets.end()});
}

}  // namespace opstep
