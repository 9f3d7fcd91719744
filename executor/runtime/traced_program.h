// The program of imperative mode. Every op that runs at once is a program by itself, but to a
// person they are one, "imperative", whose ops are the calls in the user's code in the order in
// which they were first met.
#pragma once

#include <cstdint>
#include <string>

#include "plan/plan.h"

namespace opstep {

// The id of that one program.
uint32_t TracedProgram();
inline bool IsTraced(const Plan& plan) { return plan.program_id == TracedProgram(); }
// Gives the op that the program is to have the number of a call as its id: the same for the same
// key, whatever its shapes are.
void NumberCall(Program& program, const std::string& key);
// Makes the plan of a program with one op part of that one program.
void JoinTraced(Plan& plan);

}  // namespace opstep
