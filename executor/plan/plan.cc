// Plan: finding slots, and the Python lines of an op.
#include "plan/plan.h"

namespace opstep {

bool Plan::Inside(int block, int around) const {
  while (block >= 0 && block != around) block = blocks[block].parent;
  return block == around;
}

uint32_t Plan::FindSlot(int block, std::string_view name) const {
  for (int b = block; b >= 0; b = blocks[b].parent) {
    const auto it = slot_of[b].find(std::string(name));
    if (it != slot_of[b].end()) return it->second;
  }
  return 0;
}

std::vector<SourceFrame> Plan::StackOf(const proto::OpDesc& op) const {
  std::vector<SourceFrame> stack;
  for (const uint32_t index : op.stack()) {
    const proto::CodeFrame& frame = desc.frames(static_cast<int>(index));
    stack.push_back({desc.strings(frame.file()), desc.strings(frame.function()), frame.line()});
  }
  return stack;
}

std::string Plan::PlaceOf(const Instruction& instruction) const {
  const std::vector<SourceFrame> stack = StackOf(*instruction.op);
  std::string text = " (";
  if (!stack.empty()) {
    const std::string& file = stack[0].file;
    text += Cat(file.substr(file.find_last_of('/') + 1), ":", stack[0].line, ", ");
  }
  return text + Cat("op #", instruction.op_id, " ", instruction.op->name(), ")");
}

}  // namespace opstep
