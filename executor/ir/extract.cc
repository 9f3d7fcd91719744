// Extract: copies a block and the blocks in it.
#include "ir/extract.h"

#include <unordered_map>

namespace opstep {

proto::ProgramDesc Extract(const proto::ProgramDesc& program, int block) {
  proto::ProgramDesc part;
  part.set_format(program.format());
  part.set_name(program.name());
  *part.mutable_strings() = program.strings();
  *part.mutable_frames() = program.frames();
  *part.mutable_names() = program.names();
  part.set_next_op_id(program.next_op_id());
  // A parent comes before its children.
  std::unordered_map<int, int> index;
  for (int b = block; b < program.blocks_size(); ++b) {
    const auto parent = index.find(program.blocks(b).parent());
    if (b != block && parent == index.end()) continue;
    index[b] = part.blocks_size();
    proto::BlockDesc& made = *part.add_blocks();
    made = program.blocks(b);
    made.set_parent(b == block ? -1 : parent->second);
  }
  for (proto::BlockDesc& made : *part.mutable_blocks()) {
    for (proto::OpDesc& op : *made.mutable_ops()) {
      for (proto::Attr& attr : *op.mutable_attrs()) {
        if (attr.value_case() == proto::Attr::kBlock) attr.set_block(index.at(attr.block()));
        if (attr.value_case() != proto::Attr::kBlocks) continue;
        for (int64_t& inner : *attr.mutable_blocks()->mutable_values())
          inner = index.at(static_cast<int>(inner));
      }
    }
  }
  return part;
}

}  // namespace opstep
