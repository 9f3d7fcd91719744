// Merge: the startup program as the first op of a program.
#include "passes/merge.h"

#include "ir/verify.h"
#include "ops/infer.h"
#include "ops/op.h"
#include "passes/build.h"
#include "passes/join.h"

namespace opstep {

uint32_t Merge(Program& program, const Program& startup) {
  for (const proto::OpDesc& op : startup.block(0).ops()) {
    OPSTEP_CHECK(GetOp(op.type()).role != OpRole::kFeed, "program '", startup.name(),
                 "' cannot be merged into '", program.name(), "': it is fed '", FlatOutputs(op)[0],
                 "', but a startup program is run without feeds", startup.Place(op));
  }
  const std::string flag = startup.name() + ".done";
  OPSTEP_CHECK(program.FindVarHere(0, flag) == nullptr, "program '", program.name(),
               "' has been merged with a program '", startup.name(), "' already");
  const int block = program.CreateBlock(0);
  Join(program, startup, {.block = block, .connect = {}, .share = false});

  proto::VarDesc done;
  done.set_name(flag);
  done.set_kind(proto::TENSOR);
  SetType(done, {DType::kBool, {}});
  done.set_persistable(true);
  done.set_stop_gradient(true);
  program.CreateVar(0, std::move(done));

  const OpSchema& once = GetOp(OpRole::kOnce).schema;
  proto::OpDesc op;
  op.set_type(once.type);
  op.set_name(program.UniqueOpName(startup.name()));
  *op.add_attrs() = BlockAttr(once.attrs[0].name, block);
  const auto add = [&](const SlotSchema& slot, auto& slots) {
    proto::Slot& made = *slots.Add();
    made.set_name(slot.name);
    made.add_vars(flag);
  };
  add(once.inputs[0], *op.mutable_inputs());
  add(once.outputs[0], *op.mutable_outputs());
  const uint32_t id = AppendOp(program, 0, std::move(op), 0).id();
  Verify(program.desc(), &FindSchema);
  return id;
}

}  // namespace opstep
