// Extract: a block of a program as a separate program.
#pragma once

#include "program.pb.h"

namespace opstep {

// A block of a program, with the blocks in it, as a separate program: ops keep ids, names and
// lines.
proto::ProgramDesc Extract(const proto::ProgramDesc& program, int block);

}  // namespace opstep
