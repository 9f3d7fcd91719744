// What the names of one Python call hold, and which programs were told of it. Needs the GIL.
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

// By name: the variable's name; empty for something else that a variable's name holds.
using HeldNames = std::map<std::string, std::string>;

// What a program was told of a call.
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
  // visit and its names cannot have changed since. `visit` 0: looks in any case. `others`: what it
  // shares with the functions that it has called has changed. Returns whether what it shares with
  // the frames around it has.
  bool Look(const Code& code, PyFrameObject* frame, uint32_t before, uint32_t now,
            const Program& program, uint64_t visit, bool others);
  // Tells the program what has changed.
  void Tell(Program& program, ToldNames& told) const;

 private:
  std::vector<NamedVariable> Changes(ToldNames& told) const;

  // What the names held when they were looked at last, by program; `look_` rises when that has
  // changed.
  uint64_t looked_ = 0;  // the visit
  uint64_t look_ = 0;
  std::vector<SeenName> seen_;
  uint64_t shared_ = 0;  // of what other functions can change: attributes, names of closures
  std::map<uint32_t, HeldNames> names_;
  std::vector<std::string> targets_;  // assigned by the line before
  std::vector<ToldNames> told_;
  // Is the code of its module in the stack around it, which tells of the module's names?
  std::optional<bool> own_module_;
};

}  // namespace opstep::python
