// AddTestOf: extracts a body, turns it into a test and inserts it elsewhere.
#include "passes/body.h"

#include <algorithm>
#include <set>

#include "ir/extract.h"
#include "ir/verify.h"
#include "ops/op.h"
#include "passes/join.h"
#include "passes/select.h"

namespace opstep {
namespace {

void AddFeed(proto::ProgramDesc& program, const proto::VarDesc& var) {
  const OpSchema& schema = GetOp(OpRole::kFeed).schema;
  proto::OpDesc op;
  op.set_id(program.next_op_id());
  program.set_next_op_id(op.id() + 1);
  op.set_type(schema.type);
  std::set<std::string> names;
  for (const proto::BlockDesc& block : program.blocks()) {
    for (const proto::OpDesc& other : block.ops()) names.insert(other.name());
  }
  op.set_name(var.name() + "@feed");
  for (int i = 1; names.count(op.name()) != 0; ++i) op.set_name(Cat(var.name(), "@feed_", i));
  const VarType type = TypeOf(var);
  *op.add_attrs() = DTypeAttr("dtype", type.dtype);
  *op.add_attrs() = StringAttr("name", var.name());
  *op.add_attrs() = IntsAttr("shape", {type.dims.begin(), type.dims.end()});
  proto::Slot& out = *op.add_outputs();
  out.set_name(schema.outputs[0].name);
  out.add_vars(var.name());
  auto& ops = *program.mutable_blocks(0)->mutable_ops();
  *ops.Add() = std::move(op);
  std::rotate(ops.pointer_begin(), ops.pointer_end() - 1, ops.pointer_end());
}

// The body as a program whose feeds are the variables that it was handed.
proto::ProgramDesc AsProgram(const Program& program, int body,
                             const std::map<std::string, std::string>& values) {
  proto::ProgramDesc part = Extract(program.desc(), body);
  std::set<std::string> own;
  for (const proto::BlockDesc& block : part.blocks()) {
    for (const proto::VarDesc& var : block.vars()) own.insert(var.name());
  }
  for (const auto& [handed, value] : values) AddFeed(part, *program.FindVarHere(body, handed));
  const auto bring = [&](const proto::Slot& slot) {
    for (const std::string& name : slot.vars()) {
      if (name.empty() || !own.insert(name).second) continue;
      *part.mutable_blocks(0)->add_vars() = *program.FindVar(body, name);
    }
  };
  for (int b = 0; b < part.blocks_size(); ++b) {
    for (const proto::OpDesc& op : part.blocks(b).ops()) {
      std::for_each(op.inputs().begin(), op.inputs().end(), bring);
      std::for_each(op.outputs().begin(), op.outputs().end(), bring);
    }
  }
  return part;
}

}  // namespace

std::vector<std::string> AddTestOf(Program& program, int body, int target,
                                   const std::vector<std::string>& results,
                                   const std::map<std::string, std::string>& values) {
  for (const std::string& name : results) {
    OPSTEP_CHECK(program.FindVarHere(body, name) != nullptr, "'", name,
                 "' is not made in the loop itself, so it cannot be computed for other data");
  }
  const proto::ProgramDesc part = Prune(ForTest(AsProgram(program, body, values)), results);
  for (const proto::VarDesc& var : part.blocks(0).vars()) {
    const bool own = program.FindVarHere(body, var.name()) != nullptr;
    OPSTEP_CHECK(own || var.persistable(), "'", var.name(),
                 "' is from outside the loop and is not kept between runs: make it inside, so that "
                 "it can be computed for other data");
  }
  Program added("test");
  added.Restore(part);
  JoinOptions options{.block = target, .connect = {}, .share = false};
  for (const auto& [handed, value] : values) {
    if (added.FindVarHere(0, handed) != nullptr) options.connect.emplace(handed, value);
  }
  return Join(program, added, options, results);
}

}  // namespace opstep
