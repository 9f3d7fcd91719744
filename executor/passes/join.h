// Join: puts the ops of a program behind those of another one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/program.h"

namespace opstep {

struct JoinOptions {
  // The block that gets the ops.
  int block = 0;
  // Feeds of the added program that are no longer fed: each takes the value of that variable, as
  // seen from the block, of the program before.
  std::map<std::string, std::string> connect;
  // What both have under one name is the same thing and there once, or else an error.
  bool share = false;
};

// Puts the ops of `added` behind those of a block of `program`. Ops of `program` keep their ids and
// names and its blocks their indexes; those of `added` get new ids and blocks, and other names
// where they would clash. Persistable variables are shared by name, as they are in a scope, and so
// are feeds; other variables of one name are two things, and the added one gets another name. If it
// throws, `program` is half-changed. Gives what `wanted`, variables of the added program's block 0,
// are called now.
std::vector<std::string> Join(Program& program, const Program& added, const JoinOptions& options,
                              const std::vector<std::string>& wanted = {});

}  // namespace opstep
