// Captures: what the blocks of an op read and write outside of themselves.
#pragma once

#include "program.pb.h"

namespace opstep {

// Fills the slots of an op in `block` that say what its blocks read and write outside of
// themselves, so that whoever looks at the op alone sees all that it uses and changes.
void FillCaptures(const proto::ProgramDesc& program, int block, proto::OpDesc& op);
// The same for every op, after a pass has changed the ops of blocks.
void RefreshCaptures(proto::ProgramDesc& program);

}  // namespace opstep
