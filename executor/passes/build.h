// AppendOp: completes an op, checks it and puts it into a program.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"

namespace opstep {

// Completes an op (defaults of attributes, a unique name when it has none), checks it against its
// schema, infers the types of its outputs, makes output variables that do not exist yet, and puts
// it into the block. An error says what is wrong in one sentence; the program is then unchanged.
const proto::OpDesc& AppendOp(Program& program, int block, proto::OpDesc op, int position = -1);

// Lets an existing op write one more variable, in an optional slot.
void AddOutput(Program& program, uint32_t op_id, const std::string& slot, const std::string& name);

}  // namespace opstep
