// The variables that ops use, with and without their blocks, and a program without some of its ops.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "ir/program.h"

namespace opstep {

using NameSet = std::unordered_set<std::string>;
using OpIds = std::unordered_set<uint32_t>;

bool Has(const std::vector<std::string>& names, const std::string& name);
bool AnyIn(const std::vector<std::string>& names, const NameSet& set);

// The variables that an op itself takes and gives. Outer variables used by the blocks of a loop or
// branch belong to the ops inside; an op that runs its block once counts as a whole.
std::vector<std::string> OwnInputs(const proto::OpDesc& op);
std::vector<std::string> OwnOutputs(const proto::OpDesc& op);
// … with those that its blocks use.
std::vector<std::string> AllInputs(const proto::OpDesc& op);
std::vector<std::string> AllOutputs(const proto::OpDesc& op);

// The blocks whose ops are checked one by one.
std::vector<int> OpenBlocks(const proto::OpDesc& op);

// The program without some ops in any block, and without their blocks, the variables that only they
// use, and the ops that save values for removed gradients.
proto::ProgramDesc Without(const proto::ProgramDesc& program, const OpIds& gone,
                           const NameSet& wanted);

}  // namespace opstep
