// Captures: the outside variables that the blocks of an op read and write.
#pragma once

#include "program.pb.h"

namespace opstep {

// Fills the slots of an op in `block` with the outside variables that its blocks read and write, so
// that the op alone shows everything that it uses and changes.
void FillCaptures(const proto::ProgramDesc& program, int block, proto::OpDesc& op);
// The same for every op, after a pass has changed the ops of blocks.
void RefreshCaptures(proto::ProgramDesc& program);

}  // namespace opstep
