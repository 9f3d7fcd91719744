// Join: new ids, blocks and names for the ops of one program in another.
#include "passes/join.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "ops/infer.h"
#include "ops/op.h"
#include "passes/build.h"

namespace opstep {
namespace {

using Slots = google::protobuf::RepeatedPtrField<proto::Slot>;

bool IsBlock(const proto::Attr& attr) { return attr.has_block() || attr.has_blocks(); }

// The last op of block 0 that writes the variable, or null.
const proto::OpDesc* WriterOf(const Program& program, const std::string& name) {
  const auto& ops = program.block(0).ops();
  for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
    const std::vector<std::string> outputs = FlatOutputs(*op);
    if (std::find(outputs.begin(), outputs.end(), name) != outputs.end()) return &*op;
  }
  return nullptr;
}

bool IsFeed(const proto::OpDesc* op) {
  return op != nullptr && GetOp(op->type()).role == OpRole::kFeed;
}

// Are two ops of different programs the same one, made by the same line? Feeds need only be alike,
// and two parts of one program may number its blocks differently.
bool Same(const Program& a, const proto::OpDesc& x, const Program& b, const proto::OpDesc& y) {
  const auto plain = [](const Program& program, const proto::OpDesc& op) {
    proto::OpDesc text = op;
    text.clear_id();
    text.clear_forward_op();
    text.clear_stack();
    text.clear_calls();
    text.clear_visits();
    text.clear_targets();
    text.clear_attrs();
    for (const proto::Attr& attr : op.attrs()) {
      if (!IsBlock(attr)) *text.add_attrs() = attr;
    }
    std::string made = text.SerializeAsString();
    if (op.inputs().empty()) return made;
    for (const uint32_t index : op.stack()) {
      const SourceFrame frame = program.frame(index);
      made += Cat("\n", frame.file, ":", frame.line, ":", frame.function);
    }
    return made;
  };
  return plain(a, x) == plain(b, y);
}

class Joiner {
 public:
  Joiner(Program& program, const Program& added, const JoinOptions& options)
      : program_(program), added_(added), options_(options) {
    for (const proto::BlockDesc& block : added.desc().blocks()) {
      for (const proto::VarDesc& var : block.vars()) taken_.insert(var.name());
    }
    for (const proto::BlockDesc& block : program.desc().blocks()) {
      for (const proto::VarDesc& var : block.vars()) {
        taken_.insert(var.name());
        before_vars_.insert(var.name());
      }
      for (const proto::OpDesc& op : block.ops()) before_.emplace(op.name(), op);
    }
  }

  void Run() {
    for (const auto& [feed, value] : options_.connect) {
      OPSTEP_CHECK(added_.FindVarHere(0, feed) != nullptr && IsFeed(WriterOf(added_, feed)), "'",
                   feed, "' cannot be connected: program '", added_.name(), "' is not fed it");
      OPSTEP_CHECK(program_.FindVar(options_.block, value) != nullptr, "'", feed,
                   "' cannot be connected to '", value, "': program '", program_.name(),
                   "' has no such variable");
    }
    for (const proto::VarDesc& var : added_.block(0).vars()) NameVar(var);
    for (const proto::VarDesc& var : added_.block(0).vars()) AddVar(var);
    for (const proto::OpDesc& op : added_.block(0).ops()) {
      const std::string feed = IsFeed(&op) ? FlatOutputs(op)[0] : "";
      if (options_.connect.count(feed) != 0) {
        if (there_.count(feed) == 0) Wire(op, feed, options_.connect.at(feed));
      } else if (const proto::OpDesc* known = Known(op, feed)) {
        ids_[op.id()] = known->id();
      } else {
        AddOp(0, options_.block, op);
      }
    }
    AddNames();
  }

  // The new name of the variable `name` in `block` of the added program.
  std::string NameOf(int block, const std::string& name) const {
    for (; block > 0; block = added_.block(block).parent()) {
      if (added_.FindVarHere(block, name) != nullptr) return name;
    }
    const auto it = names_.find(name);
    return it == names_.end() ? name : it->second;
  }

 private:
  [[noreturn]] void TwoMeanings(std::string_view what, const std::string& name) const {
    Fail("two models have ", what, " '", name,
         "' with different meanings: build one of them inside opstep.name_scope(...)");
  }

  // ---- variables

  // The name that a variable of the added program's block 0 will have; `there_` when the program
  // has it already.
  void NameVar(const proto::VarDesc& var) {
    std::string& name = names_[var.name()] = var.name();
    const proto::VarDesc* found = program_.FindVarHere(0, name);
    if (found == nullptr) {
      // In a separate block it could keep the name, but the name would be ambiguous.
      if (before_vars_.count(name) != 0) name = Fresh(name);
      return;
    }
    if (options_.connect.count(name) != 0) {
      if (!options_.share) {
        name = Fresh(name);
        return;
      }
      const proto::OpDesc* writer = WriterOf(program_, name);
      const bool wired = writer != nullptr && GetOp(writer->type()).role == OpRole::kCopy &&
                         FlatInputs(*writer)[0] == options_.connect.at(name);
      OPSTEP_CHECK(wired, "'", name, "' cannot be connected: an earlier model is fed it");
      there_.insert(name);
      return;
    }
    const bool alike = found->kind() == var.kind() && TypeOf(*found) == TypeOf(var);
    if (options_.share) {
      const proto::OpDesc *mine = WriterOf(added_, name), *other = WriterOf(program_, name);
      const bool same = mine == nullptr || other == nullptr ? mine == other
                                                            : Same(added_, *mine, program_, *other);
      if (!same || !alike) TwoMeanings("a variable", name);
      there_.insert(name);
    } else if (var.persistable() || found->persistable()) {
      OPSTEP_CHECK(var.persistable() && found->persistable(), "'", name, "' is persistable in '",
                   (var.persistable() ? added_ : program_).name(), "' but not in '",
                   (var.persistable() ? program_ : added_).name(),
                   "': give one of them another name");
      OPSTEP_CHECK(alike, "'", name, "' is ", TypeOf(*found).ToString(), " in program '",
                   program_.name(), "' but ", TypeOf(var).ToString(), " in '", added_.name(),
                   "': programs share persistable variables, so they must agree");
      CheckOnce(name);
      there_.insert(name);
    } else if (IsFeed(WriterOf(added_, name)) && IsFeed(WriterOf(program_, name))) {
      OPSTEP_CHECK(alike, "both programs are fed '", name, "', but it is ",
                   TypeOf(*found).ToString(), " in '", program_.name(), "' and ",
                   TypeOf(var).ToString(), " in '", added_.name(),
                   "': connect one of them, or give it another name");
      there_.insert(name);
    } else {
      name = Fresh(name);
    }
  }

  // With one flag for two ops that run once, the second would never run.
  void CheckOnce(const std::string& name) const {
    const proto::OpDesc *mine = WriterOf(added_, name), *other = WriterOf(program_, name);
    const auto flag = [&](const proto::OpDesc* op) {
      return op != nullptr && GetOp(op->type()).role == OpRole::kOnce && FlatInputs(*op)[0] == name;
    };
    OPSTEP_CHECK(!flag(mine) || !flag(other) || Same(added_, *mine, program_, *other), "'", name,
                 "' says in both programs whether their first values are there: merge them with "
                 "startup programs of different names");
  }

  std::string Fresh(const std::string& name) {
    for (int i = 1;; ++i) {
      const std::string made = Cat(name, "_", i);
      if (taken_.insert(made).second) return made;
    }
  }

  void AddVar(const proto::VarDesc& var) {
    if (there_.count(var.name()) != 0 || options_.connect.count(var.name()) != 0) return;
    // Persistable variables belong to block 0, where they can be fetched.
    program_.CreateVar(var.persistable() ? 0 : options_.block, Renamed(0, var));
  }

  proto::VarDesc Renamed(int block, const proto::VarDesc& var) const {
    proto::VarDesc made = var;
    made.set_name(NameOf(block, var.name()));
    for (proto::LodLevel& level : *made.mutable_lod()) {
      level.set_offsets(NameOf(block, level.offsets()));
      level.set_steps(NameOf(block, level.steps()));
    }
    return made;
  }

  // ---- ops

  // The op of the program that equals this one.
  const proto::OpDesc* Known(const proto::OpDesc& op, const std::string& feed) const {
    if (!options_.share) {
      const bool fed = !feed.empty() && there_.count(feed) != 0;
      return fed ? WriterOf(program_, feed) : nullptr;
    }
    const auto it = before_.find(op.name());
    if (it == before_.end()) return nullptr;
    if (!Same(added_, op, program_, it->second)) TwoMeanings("an op", op.name());
    return &it->second;
  }

  // A copy of `value` instead of the feed.
  void Wire(const proto::OpDesc& feed, const std::string& name, const std::string& value) {
    const VarType given = TypeOf(*program_.FindVar(options_.block, value));
    const VarType wanted = TypeOf(*added_.FindVarHere(0, name));
    bool fits = given.dtype == wanted.dtype && given.dims.rank() == wanted.dims.rank();
    for (int i = 0; fits && i < given.dims.rank(); ++i) {
      fits = given.dims[i] == wanted.dims[i] || given.dims[i] < 0 || wanted.dims[i] < 0;
    }
    OPSTEP_CHECK(fits, "cannot connect '", name, "' to '", value, "': it is ", wanted.ToString(),
                 ", but '", value, "' is ", given.ToString());
    const OpSchema& copy = GetOp(OpRole::kCopy).schema;
    proto::OpDesc op;
    op.set_type(copy.type);
    op.set_name(program_.UniqueOpName(feed.name()));
    SetStack(feed, op);
    proto::Slot& in = *op.add_inputs();
    in.set_name(copy.inputs[0].name);
    in.add_vars(value);
    proto::Slot& out = *op.add_outputs();
    out.set_name(copy.outputs[0].name);
    out.add_vars(names_.at(name));
    ids_[feed.id()] = AppendOp(program_, options_.block, std::move(op), -1).id();
  }

  void SetStack(const proto::OpDesc& from, proto::OpDesc& to) {
    to.clear_stack();
    for (const uint32_t index : from.stack())
      to.add_stack(program_.InternFrame(added_.frame(index)));
    to.clear_calls();
    to.clear_visits();
    to.clear_targets();
    for (const uint32_t target : from.targets())
      to.add_targets(program_.InternString(added_.desc().strings(static_cast<int>(target))));
    // The new part begins with this op.
    const auto number = [&](std::unordered_map<uint32_t, uint32_t>& numbers, uint32_t old, int at) {
      const uint32_t made = CallNumber(program_.desc().next_op_id(), static_cast<uint32_t>(at));
      return numbers.try_emplace(old, made).first->second;
    };
    for (int i = 0; i < from.calls_size(); ++i) to.add_calls(number(calls_, from.calls(i), i));
    for (int i = 0; i < from.visits_size(); ++i) to.add_visits(number(visits_, from.visits(i), i));
  }

  // Python's names of the added variables.
  void AddNames() {
    const std::map<uint32_t, uint32_t> ids(ids_.begin(), ids_.end());
    for (const proto::NameChange& change : added_.desc().names()) {
      const auto call = calls_.find(change.call());
      const auto op = ids.lower_bound(change.op());
      if (call == calls_.end() || op == ids.end()) continue;
      std::vector<NamedVariable> names;
      for (const proto::Naming& named : change.names()) {
        const std::string variable =
            named.variable() ? NameOf(0, added_.desc().strings(named.variable() - 1)) : "";
        names.push_back(
            {added_.desc().strings(named.name()), variable, named.assigned(), named.other()});
      }
      program_.AddNames(call->second, op->second, names);
    }
  }

  // Copies an op of block `from` of the added program, and its blocks, to the end of block `to`.
  void AddOp(int from, int to, const proto::OpDesc& op) {
    proto::OpDesc made = op;
    const OpSchema& schema = GetOp(op.type()).schema;
    for (proto::Attr& attr : *made.mutable_attrs()) {
      if (attr.has_block()) attr.set_block(AddBlock(attr.block(), to));
      for (int i = 0; i < attr.blocks().values_size(); ++i) {
        const int block = static_cast<int>(attr.blocks().values(i));
        attr.mutable_blocks()->set_values(i, AddBlock(block, to));
      }
    }
    RenameSlots(from, op, *made.mutable_inputs(), schema.inputs);
    RenameSlots(from, op, *made.mutable_outputs(), schema.outputs);
    SetStack(op, made);
    made.set_name(program_.UniqueOpName(op.name()));
    made.set_forward_op(op.forward_op() == 0 ? 0 : ids_[op.forward_op()]);
    ids_[op.id()] = program_.InsertOp(to, std::move(made)).id();
  }

  void RenameSlots(int from, const proto::OpDesc& op, Slots& slots,
                   const std::vector<SlotSchema>& schemas) const {
    for (proto::Slot& slot : slots) {
      const auto schema = std::find_if(schemas.begin(), schemas.end(),
                                       [&](const SlotSchema& s) { return s.name == slot.name(); });
      const int home = schema->of_block.empty() ? from : OpView(op).Block(schema->of_block);
      for (std::string& name : *slot.mutable_vars()) name = NameOf(home, name);
    }
  }

  int AddBlock(int block, int parent) {
    const int made = program_.CreateBlock(parent);
    for (const proto::VarDesc& var : added_.block(block).vars())
      program_.CreateVar(made, Renamed(block, var));
    for (const proto::OpDesc& op : added_.block(block).ops()) AddOp(block, made, op);
    return made;
  }

  Program& program_;
  const Program& added_;
  const JoinOptions& options_;
  // Names of all variables.
  std::unordered_set<std::string> taken_;
  std::unordered_set<std::string> before_vars_;
  std::unordered_map<std::string, proto::OpDesc> before_;
  // Of the added program's block 0: the new names of variables, and those that already existed.
  std::unordered_map<std::string, std::string> names_;
  std::unordered_set<std::string> there_;
  // Of the added program's ops, and of the calls and visits that made them.
  std::unordered_map<uint32_t, uint32_t> ids_, calls_, visits_;
};

}  // namespace

std::vector<std::string> Join(Program& program, const Program& added, const JoinOptions& options,
                              const std::vector<std::string>& wanted) {
  Joiner joiner(program, added, options);
  joiner.Run();
  std::vector<std::string> names;
  for (const std::string& name : wanted) names.push_back(joiner.NameOf(0, name));
  return names;
}

}  // namespace opstep
