#pragma once

#include "ir/program.h"

namespace opstep {

// The executable spec of a legal program: throws an Error that names block, op and rule for the
// first thing that is wrong. Run on every program before it is compiled, after every pass and on
// every file.
void Verify(const proto::ProgramDesc& program, SchemaLookup schemas);

}  // namespace opstep
