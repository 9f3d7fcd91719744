// MadeBy: the Python calls that made an op, and the names in their frames.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace opstep {

// Of one Python frame that led to an op: the call of its function, and the execution of its line in
// that call. The numbers only show whether two are the same.
struct CallVisit {
  uint64_t call = 0;
  uint64_t visit = 0;
  bool operator==(const CallVisit&) const = default;
};

// Of all frames of an op's stack, outermost first. Empty for an op that has no line.
using MadeBy = std::vector<CallVisit>;

// Those of a gradient differ from those of its forward op.
MadeBy MadeByOf(const Plan& plan, const proto::OpDesc& op);

// The number of frames, from the outermost, in the same execution of their line, or in the same
// call.
size_t SameVisits(const MadeBy& a, const MadeBy& b);
size_t SameCalls(const MadeBy& a, const MadeBy& b);

// A name in a Python frame, and the variable that it held; empty: it held no variable. `line`:
// where it was assigned, 0: not known.
struct NameAt {
  std::string name;
  std::string variable;
  uint32_t line = 0;
  bool known = true;  // false: only known as a name in the code
};
// The names in one of those frames as they were when the op was made. `frames`: the frame's number;
// 1 is the outermost. With `after` also the names that its line assigned, if the op has written the
// value. A name that was assigned later, and only once, is included. Every name that the frame's
// code can mean is included, so that none is mistaken for a variable of the program.
std::vector<NameAt> NamesAt(const Plan& plan, const proto::OpDesc& op, size_t frames, bool after);

// Was the function defined inside the other one, whose name begins its own? Python 3.10 tells this
// for comprehensions only.
bool IsInside(const std::string& function, const std::string& other);

// The variables that a name has held anywhere in the program.
std::vector<std::string> VariablesNamed(const proto::ProgramDesc& program, const std::string& name);

}  // namespace opstep
