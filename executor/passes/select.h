#pragma once

#include <string>
#include <vector>

#include "ir/program.h"

namespace opstep {

// Programs with a part of another one's ops. The ops keep ids, names and lines; variables and
// blocks that no op of the part needs are gone.

// Without gradients, without what is computed from them (the training step) and without ops that
// serve only that (learning rates, counters of steps). Attributes `is_test` are true and
// `training_mode` false there.
proto::ProgramDesc ForTest(const proto::ProgramDesc& trained);

// What `targets` have at the end of the program, and nothing else.
proto::ProgramDesc Prune(const proto::ProgramDesc& program,
                         const std::vector<std::string>& targets);

}  // namespace opstep
