// The program of imperative mode. Every op that runs at once is a separate program, but people see
// one program, "imperative", whose ops are the calls in the user's code in the order of their first
// runs.
#pragma once

#include <cstdint>
#include <string>

#include "plan/plan.h"

namespace opstep {

// The id of that one program.
uint32_t TracedProgram();
inline bool IsTraced(const Plan& plan) { return plan.program_id == TracedProgram(); }
// Gives the program's op the number of its call as id: the same for the same key, for all shapes.
void NumberCall(Program& program, const std::string& key);
// Makes the plan of a program with one op part of that one program.
void JoinTraced(Plan& plan);

}  // namespace opstep
