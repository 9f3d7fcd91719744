// The listing of a program, which the debugger shows as source.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "ir/program.h"

namespace opstep {

// The program as text, one op a line, ops of sub-blocks indented below the op that runs them.
struct Listing {
  std::vector<std::string> lines;
  // Op id → line, from 1, and the op on a line (0: none).
  std::unordered_map<uint32_t, uint32_t> line_of;
  std::vector<uint32_t> op_at;
  std::string ToString() const;
};

Listing Print(const Program& program);

// "float32[?, 8]", or the fields of a reader: "reader of x float32[8], y int64[1]".
std::string TypeText(const proto::VarDesc& var);

}  // namespace opstep
