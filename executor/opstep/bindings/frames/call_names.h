// The values of the names of one Python call, and their records in programs. Needs the GIL.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "opstep/bindings/frames/frames.h"

namespace opstep::python {

// A name that holds a variable, as hashes, to see quickly whether something has changed.
struct SeenName {
  uint64_t name = 0;
  uint64_t variable = 0;
  uint32_t program = 0;
  bool operator==(const SeenName&) const = default;
};

// By name: the variable's name; empty when a variable's name holds something else.
using HeldNames = std::map<std::string, std::string>;

// The record of a call in a program.
struct ToldNames {
  uint32_t program = 0;
  uint32_t call = 0;
  uint64_t visit = 0;
  uint32_t visit_number = 0;
  uint64_t look = 0;
  HeldNames names;
  uint32_t restored = 0;  // see Program
};

class CallNames {
 public:
  // `frame`: its place in the stack of the op that is made next.
  ToldNames& ToldTo(const Program& program, uint32_t frame);
  // The same, if there is one; or null.
  ToldNames* FindTold(const Program& program);
  // Looks at the frame, which was at `before` when it made its last op, unless it is in the same
  // visit and its names cannot have changed since. `visit` 0: always looks. `others`: names shared
  // with the functions that it has called have changed. Returns whether names shared with the
  // frames around it have.
  bool Look(const Code& code, PyFrameObject* frame, uint32_t before, uint32_t now,
            const Program& program, uint64_t visit, bool others);
  // Records the changes in the program.
  void Tell(Program& program, ToldNames& told) const;

 private:
  std::vector<NamedVariable> Changes(ToldNames& told) const;

  // The values of the names at the last look, by program; `look_` rises when they have changed.
  uint64_t looked_ = 0;  // the visit
  uint64_t look_ = 0;
  std::vector<SeenName> seen_;
  uint64_t shared_ = 0;  // of values that other functions can change: attributes, names of closures
  std::map<uint32_t, HeldNames> names_;
  std::vector<std::string> targets_;  // assigned by the line before
  std::vector<ToldNames> told_;
  // Is the code of its module in the stack around it? That code records the module's names.
  std::optional<bool> own_module_;
};

}  // namespace opstep::python
