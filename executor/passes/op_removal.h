// What ops use, with and without their blocks, and a program without some of its ops.
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

// The variables that an op itself takes and gives. What the blocks of a loop or branch use of the
// blocks around them belongs to the ops inside; an op that runs its block once counts as a whole.
std::vector<std::string> OwnInputs(const proto::OpDesc& op);
std::vector<std::string> OwnOutputs(const proto::OpDesc& op);
// … with what its blocks use.
std::vector<std::string> AllInputs(const proto::OpDesc& op);
std::vector<std::string> AllOutputs(const proto::OpDesc& op);

// The blocks whose ops are looked at one by one.
std::vector<int> OpenBlocks(const proto::OpDesc& op);

// The program without some ops, wherever they stand, and what belongs to them: their blocks, the
// variables that only they use, and what saves values for gradients that are not there any more.
proto::ProgramDesc Without(const proto::ProgramDesc& program, const OpIds& gone,
                           const NameSet& wanted);

}  // namespace opstep
