// Verify: the executable spec of a legal program.
#pragma once

#include <optional>
#include <string>

#include "ir/program.h"

namespace opstep {

// The executable spec of a legal program: throws an Error that names block, op and rule for the
// first violation. Run on every program before it is compiled, after every pass and on every file.
void Verify(const proto::ProgramDesc& program, SchemaLookup schemas);

// An op may write a variable that it reads only if it declares that it works in place, and may
// write no variable twice.
struct AliasProblem {
  std::string rule;
  std::string what;
};
std::optional<AliasProblem> FindAliasProblem(const proto::OpDesc& op, const OpSchema& schema);

}  // namespace opstep
