// Extract: a block of a program as a program of its own.
#pragma once

#include "program.pb.h"

namespace opstep {

// A block of a program, with the blocks in it, as a program of its own: ops keep ids, names and
// lines.
proto::ProgramDesc Extract(const proto::ProgramDesc& program, int block);

}  // namespace opstep
