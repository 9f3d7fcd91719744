// Join: appends the ops of a program to another program.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/program.h"

namespace opstep {

struct JoinOptions {
  // The block to which the ops are appended.
  int block = 0;
  // Feeds of the added program that are no longer fed: each takes the value of that variable, as
  // seen from the block, of the program before.
  std::map<std::string, std::string> connect;
  // A name that both have must mean the same thing, which is kept once; otherwise it is an error.
  bool share = false;
};

// Appends the ops of `added` to a block of `program`. Ops of `program` keep their ids and names and
// its blocks their indexes; those of `added` get new ids and blocks, and other names where they
// would clash. Persistable variables are shared by name, as they are in a scope, and so are feeds;
// other variables of one name are different things, and the added one gets another name. If it
// throws, `program` is half-changed. Returns the new names of `wanted`, variables of the added
// program's block 0.
std::vector<std::string> Join(Program& program, const Program& added, const JoinOptions& options,
                              const std::vector<std::string>& wanted = {});

}  // namespace opstep
