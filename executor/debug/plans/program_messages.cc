// Programs and ops as messages: size, listing line, variables, blocks, Python lines.
#include "debug/plans/program_messages.h"

#include <memory>

#include "runtime/traced_program.h"

namespace opstep {

proto::ProgramEvent Describe(const Plan& plan) {
  proto::ProgramEvent event;
  event.set_program(plan.program_id);
  event.set_name(plan.program_name);
  event.set_version(plan.program_version);
  int ops = 0;
  for (const proto::BlockDesc& block : plan.desc.blocks()) ops += block.ops_size();
  event.set_op_count(static_cast<uint32_t>(ops));
  event.set_block_count(static_cast<uint32_t>(plan.desc.blocks_size()));
  event.set_planned_bytes(plan.fast_bytes);
  event.set_compile_ms(plan.compile_ms);
  return event;
}

proto::ProgramEvent Describe(BoundPlans& plans) {
  proto::ProgramEvent event;
  event.set_program(TracedProgram());
  for (const std::shared_ptr<const Plan>& plan : plans.Traced()) {
    event.set_name(plan->program_name);
    event.set_op_count(event.op_count() + 1);
    event.set_planned_bytes(event.planned_bytes() + plan->fast_bytes);
    event.set_compile_ms(event.compile_ms() + plan->compile_ms);
  }
  event.set_version(plans.traced());
  event.set_block_count(1);
  return event;
}

void FillOpInfo(const Plan& plan, int block, const proto::OpDesc& op, proto::OpInfo* info) {
  info->set_id(op.id());
  info->set_name(op.name());
  info->set_type(op.type());
  info->set_block(static_cast<uint32_t>(block));
  if (const auto line = plan.listing.line_of.find(op.id()); line != plan.listing.line_of.end()) {
    info->set_listing_line(line->second);
  }
  for (const proto::Slot& slot : op.outputs()) {
    for (const std::string& name : slot.vars()) {
      const uint32_t index = plan.FindSlot(block, name);
      if (!index) continue;
      const VarType& type = plan.slots[index].type;
      proto::VarInfo* var = info->add_outputs();
      var->set_name(name);
      if (plan.slots[index].storage == Storage::kReader) continue;  // it has no dtype
      var->set_dtype(static_cast<proto::DataType>(type.dtype));
      for (int64_t size : type.dims) var->add_dims(size);
    }
  }
  info->set_forward_op(op.forward_op());
  info->set_forward_name(op.forward().name());
  for (const SourceFrame& frame : plan.StackOf(op)) {
    proto::SourceLine* line = info->add_stack();
    line->set_file(frame.file);
    line->set_line(frame.line);
    line->set_function(frame.function);
  }
  for (const proto::Attr& attr : op.attrs()) {
    const auto add = [&](int64_t block) {
      proto::BlockInfo* run = info->add_blocks();
      run->set_block(static_cast<uint32_t>(block));
      run->set_name(attr.name());
    };
    if (attr.value_case() == proto::Attr::kBlock) add(attr.block());
    for (const int64_t block : attr.blocks().values()) add(block);
  }
}

}  // namespace opstep
