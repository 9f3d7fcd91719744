// Captures: the outside variables that the blocks of an op read and write.
#include "passes/captures.h"

#include <algorithm>
#include <set>

#include "ops/infer.h"
#include "ops/op.h"

namespace opstep {
namespace {

using Slots = google::protobuf::RepeatedPtrField<proto::Slot>;

// Names in order of first use, each once.
class NameList {
 public:
  void Add(const std::string& name) {
    if (!name.empty() && seen_.insert(name).second) names_.push_back(name);
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::set<std::string> seen_;
  std::vector<std::string> names_;
};

// A variable is written by one slot of an op, but may be read in several: an item of a list, such
// as a sequence, may be used inside too and then has two gradients. A condition has none.
void SetSlot(Slots& slots, const std::vector<SlotSchema>& schemas,
             const std::vector<std::string>& names, bool outputs) {
  const auto schema =
      std::find_if(schemas.begin(), schemas.end(), [](const SlotSchema& s) { return s.captures; });
  if (schema == schemas.end()) return;
  std::set<std::string> elsewhere;
  for (const proto::Slot& slot : slots) {
    const auto other = std::find_if(schemas.begin(), schemas.end(),
                                    [&](const SlotSchema& s) { return s.name == slot.name(); });
    if (other == schemas.end() || other->captures || !other->of_block.empty()) continue;
    if (!outputs && other->variadic) continue;
    elsewhere.insert(slot.vars().begin(), slot.vars().end());
  }
  Slots others;
  proto::Slot captured;
  captured.set_name(schema->name);
  for (const std::string& name : names) {
    if (elsewhere.count(name) == 0) captured.add_vars(name);
  }
  // Slots are in the order of the schema.
  for (const SlotSchema& one : schemas) {
    if (&one == &*schema) {
      if (captured.vars_size() > 0) *others.Add() = captured;
      continue;
    }
    for (const proto::Slot& slot : slots) {
      if (slot.name() == one.name) *others.Add() = slot;
    }
  }
  slots.Swap(&others);
}

}  // namespace

void FillCaptures(const proto::ProgramDesc& program, int block, proto::OpDesc& op) {
  const std::vector<int> blocks = OpView(op).Blocks();
  if (blocks.empty()) return;
  NameList used, written;
  for (const int inner : blocks) {
    OPSTEP_CHECK(inner > 0 && inner < program.blocks_size(), "block ", inner, " does not exist");
    std::set<std::string_view> own;
    for (const proto::VarDesc& var : program.blocks(inner).vars()) own.insert(var.name());
    const auto outside = [&](const Arg& arg) {
      return arg.block == inner && own.count(arg.name) == 0;
    };
    for (const proto::OpDesc& one : program.blocks(inner).ops()) {
      for (const Arg& arg : InputArgs(one, inner)) {
        if (outside(arg)) used.Add(arg.name);
      }
      for (const Arg& arg : OutputArgs(one, inner)) {
        if (!outside(arg)) continue;
        used.Add(arg.name);
        written.Add(arg.name);
      }
    }
    // A block may give a variable from outside as its result.
    for (const Arg& arg : InputArgs(op, block)) {
      if (arg.inner() && outside(arg)) used.Add(arg.name);
    }
  }
  const OpSchema& schema = GetOp(op.type()).schema;
  SetSlot(*op.mutable_inputs(), schema.inputs, used.names(), false);
  SetSlot(*op.mutable_outputs(), schema.outputs, written.names(), true);
}

void RefreshCaptures(proto::ProgramDesc& program) {
  // Inner blocks come after the blocks around them.
  for (int block = program.blocks_size() - 1; block >= 0; --block) {
    for (proto::OpDesc& op : *program.mutable_blocks(block)->mutable_ops())
      FillCaptures(program, block, op);
  }
}

}  // namespace opstep
