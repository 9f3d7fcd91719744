#pragma once

#include "ir/program.h"

namespace opstep {

// Fills the slots of an op in `block` that say what its blocks read and write outside of
// themselves, so that whoever looks at the op alone sees all that it uses and changes.
void FillCaptures(const Program& program, int block, proto::OpDesc& op);
// The same for every op, after a pass has added ops to blocks.
void RefreshCaptures(Program& program);

}  // namespace opstep
