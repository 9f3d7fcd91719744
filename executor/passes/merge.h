// Merge: lets a program initialize itself in its first run in a scope.
#pragma once

#include "ir/program.h"

namespace opstep {

// Lets the program do itself, in its first run in a scope, what `startup` does: block 0 then begins
// with an op whose block is startup's. Ids, names and blocks of the program stay. Gives the op's
// id.
uint32_t Merge(Program& program, const Program& startup);

}  // namespace opstep
