// A program without some ops: removes their variables, blocks and saved values too.
#include "passes/op_removal.h"

#include <algorithm>

#include "ir/op_view.h"
#include "ir/verify.h"
#include "ops/infer.h"
#include "ops/op.h"
#include "passes/captures.h"

namespace opstep {
namespace {

std::vector<std::string> NamesOf(const std::vector<Arg>& args, bool captures) {
  std::vector<std::string> names;
  for (const Arg& arg : args) {
    if (!arg.name.empty() && (captures || !arg.slot->captures)) names.push_back(arg.name);
  }
  return names;
}

bool Whole(const proto::OpDesc& op) { return GetOp(op.type()).role == OpRole::kOnce; }

// Names used by ops that stay, and by ops that go.
class Uses {
 public:
  Uses(const proto::ProgramDesc& program, const OpIds& gone, const NameSet& wanted)
      : program_(program), gone_(gone), used_(wanted) {
    Visit(0, false);
    for (const proto::BlockDesc& block : program.blocks()) {
      for (const proto::VarDesc& var : block.vars()) {
        if (used_.count(var.name()) == 0) continue;
        for (const proto::LodLevel& level : var.lod()) {
          used_.insert(level.offsets());
          used_.insert(level.steps());
        }
      }
    }
  }

  // Variables that no op used before stay too: the caller may need them.
  bool Needless(const std::string& name) const {
    return used_.count(name) == 0 && unused_.count(name) != 0;
  }

 private:
  void Visit(int block, bool gone) {
    for (const proto::OpDesc& op : program_.blocks(block).ops()) {
      const bool goes = gone || gone_.count(op.id()) != 0;
      NameSet& names = goes ? unused_ : used_;
      for (std::string& name : OwnInputs(op)) names.insert(std::move(name));
      for (std::string& name : OwnOutputs(op)) names.insert(std::move(name));
      for (const int inner : OpView(op).Blocks()) Visit(inner, goes);
    }
  }

  const proto::ProgramDesc& program_;
  const OpIds& gone_;
  NameSet used_, unused_;
};

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

template <typename Items, typename F>
void EraseIf(Items& items, F&& f) {
  items.erase(std::remove_if(items.begin(), items.end(), f), items.end());
}

// Removes the ops that save values for missing gradients.
void DropUnusedStacks(proto::ProgramDesc& program) {
  NameSet needed;
  for (const proto::BlockDesc& block : program.blocks()) {
    for (const proto::OpDesc& op : block.ops()) {
      const OpRole role = GetOp(op.type()).role;
      if (role == OpRole::kPop) needed.insert(AllInputs(op)[0]);
      // Values kept for the caller are not saved for a gradient.
      if (role == OpRole::kPush && !IsGradient(op)) needed.insert(AllOutputs(op)[0]);
    }
  }
  for (proto::BlockDesc& block : *program.mutable_blocks()) {
    EraseIf(*block.mutable_ops(), [&](const proto::OpDesc& op) {
      return GetOp(op.type()).role == OpRole::kPush && needed.count(AllOutputs(op)[0]) == 0;
    });
    EraseIf(*block.mutable_vars(), [&](const proto::VarDesc& var) {
      return var.kind() == proto::STACK && needed.count(var.name()) == 0;
    });
  }
}

}  // namespace

bool Has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool AnyIn(const std::vector<std::string>& names, const NameSet& set) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return set.count(name) != 0; });
}

std::vector<std::string> OwnInputs(const proto::OpDesc& op) {
  return NamesOf(InputArgs(op, 0), Whole(op));
}

std::vector<std::string> OwnOutputs(const proto::OpDesc& op) {
  return NamesOf(OutputArgs(op, 0), Whole(op));
}

std::vector<std::string> AllInputs(const proto::OpDesc& op) {
  return NamesOf(InputArgs(op, 0), true);
}

std::vector<std::string> AllOutputs(const proto::OpDesc& op) {
  return NamesOf(OutputArgs(op, 0), true);
}

std::vector<int> OpenBlocks(const proto::OpDesc& op) {
  return Whole(op) ? std::vector<int>() : OpView(op).Blocks();
}

proto::ProgramDesc Without(const proto::ProgramDesc& program, const OpIds& gone,
                           const NameSet& wanted) {
  const Uses uses(program, gone, wanted);
  proto::ProgramDesc chosen = program;
  for (proto::BlockDesc& block : *chosen.mutable_blocks()) {
    EraseIf(*block.mutable_ops(),
            [&](const proto::OpDesc& op) { return gone.count(op.id()) != 0; });
    EraseIf(*block.mutable_vars(),
            [&](const proto::VarDesc& var) { return uses.Needless(var.name()); });
  }
  proto::ProgramDesc result = chosen;
  result.clear_blocks();
  CopyBlock(chosen, 0, -1, result);
  DropUnusedStacks(result);
  RefreshCaptures(result);
  Verify(result, &FindSchema);
  return result;
}

}  // namespace opstep
