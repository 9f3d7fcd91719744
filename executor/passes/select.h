// ForTest and Prune: part of a program as a program.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"

namespace opstep {

// Programs with part of another program's ops, in all blocks. The ops keep ids, names and lines;
// variables and blocks that no op of the part needs are gone. An op that runs its block once stays
// whole or goes: another part of the program finds the same values filled.

// Without gradients, the training step computed from them, the ops that serve only that (learning
// rates, counters of steps) and ops that write files. Attributes `is_test` are true and
// `training_mode` false there.
proto::ProgramDesc ForTest(const proto::ProgramDesc& trained);

// The ops that compute `targets` at the end of the program, or in the last run of their block, and
// nothing else. `filled`: without the ops that give persistable variables their first values.
proto::ProgramDesc Prune(const proto::ProgramDesc& program, const std::vector<std::string>& targets,
                         bool filled = false);

}  // namespace opstep
