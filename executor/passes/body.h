// AddTestOf: results of a body computed again, as in a test.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/program.h"

namespace opstep {

// Adds to block `target` the ops that compute `results`, variables of the block `body`, as in a
// test: without gradients, and with layers in test mode. `values` maps variables that the body was
// handed to variables seen from `target`; persistable variables are shared. Gives the names of the
// results there.
std::vector<std::string> AddTestOf(Program& program, int body, int target,
                                   const std::vector<std::string>& results,
                                   const std::map<std::string, std::string>& values);

}  // namespace opstep
