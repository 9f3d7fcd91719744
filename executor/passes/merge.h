// Merge: lets a program initialize itself in its first run in a scope.
#pragma once

#include "ir/program.h"

namespace opstep {

// Lets the program itself do the work of `startup` in its first run in a scope: block 0 then begins
// with an op whose block is startup's. Ids, names and blocks of the program stay. Returns the op's
// id.
uint32_t Merge(Program& program, const Program& startup);

}  // namespace opstep
