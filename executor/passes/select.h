// ForTest and Prune: a part of a program as a program.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"

namespace opstep {

// Programs with a part of another one's ops, in all of their blocks. The ops keep ids, names and
// lines; variables and blocks that no op of the part needs are gone. An op that runs its block once
// stays whole or goes: another part of the program finds the same values filled.

// Without gradients, without what is computed from them (the training step), without ops that serve
// only that (learning rates, counters of steps) and without what writes files. Attributes `is_test`
// are true and `training_mode` false there.
proto::ProgramDesc ForTest(const proto::ProgramDesc& trained);

// What `targets` have at the end of the program, or in the last run of their block, and nothing
// else. `filled`: without what gives persistable variables their first values.
proto::ProgramDesc Prune(const proto::ProgramDesc& program, const std::vector<std::string>& targets,
                         bool filled = false);

}  // namespace opstep
