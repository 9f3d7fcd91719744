// MadeBy: the Python calls that made an op, and the names in their frames.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace opstep {

// Of one Python frame that led to an op: the call of its function, and the execution of its line in
// that call. Numbers that mean nothing but that they are the same or not.
struct CallVisit {
  uint64_t call = 0;
  uint64_t visit = 0;
  bool operator==(const CallVisit&) const = default;
};

// Of all frames of an op's stack, outermost first. Empty for an op that has no line.
using MadeBy = std::vector<CallVisit>;

// Those of a gradient differ from those of its forward op.
MadeBy MadeByOf(const Plan& plan, const proto::OpDesc& op);

// How many frames, from the outermost, are in the same execution of their line, or in the same
// call.
size_t SameVisits(const MadeBy& a, const MadeBy& b);
size_t SameCalls(const MadeBy& a, const MadeBy& b);

// A name in a Python frame, and the variable that it held; empty: something else, or nothing.
// `line`: where it was assigned, 0: not known.
struct NameAt {
  std::string name;
  std::string variable;
  uint32_t line = 0;
  bool known = true;  // false: nothing but that the code has such a name
};
// The names in one of those frames as they were when the op was made. `frames`: the frame's number
// from the outermost, from 1. With `after` also what its line assigned, as far as the op has
// written it. A name that was assigned later, and only once, is there too. Every name that the
// frame's code can mean is there, so that none is taken for a variable of the program.
std::vector<NameAt> NamesAt(const Plan& plan, const proto::OpDesc& op, size_t frames, bool after);

// Was the function written in the other one, by the name of which its own begins? In Python 3.10
// that is known of comprehensions only.
bool IsInside(const std::string& function, const std::string& other);

// The variables that a name has held anywhere in the program.
std::vector<std::string> VariablesNamed(const proto::ProgramDesc& program, const std::string& name);

}  // namespace opstep
