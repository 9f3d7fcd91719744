// PythonNames: which variables the names in one Python frame hold.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "plan/plan.h"

namespace opstep {

// A name in the user's Python code that holds a variable of a program.
struct PythonName {
  std::string name;  // "loss", or "self.loss" of an object
  uint32_t program = 0;
  std::string variable;
  // Or a value of imperative mode that the op does not read: it has no variable, only elements.
  Tensor value = {};
  bool parameter = false;  // a layer keeps it
  uint32_t line = 0;       // the line that assigned it in a frame that made an op; 0: not known
  bool other = false;      // it holds no variable, though the program has one of that name
  bool known = true;       // not known: then only the name and `other` are set
  bool unread = false;  // `other`: it holds a value of imperative mode, which the op does not read
};

// The names in one Python frame that hold variables, for use in expressions. The names of a frame
// that made an op are as they were then. Those of a running frame are as they are now: they are
// read when the first name is looked up, on that thread and without any lock, because reading may
// wait for Python's lock.
class PythonNames {
 public:
  // Values keep their memory as long as their names are kept: use them at once.
  enum class Of : uint8_t { kVariables, kVariablesAndValues };
  // Of a frame of the calling thread: the user's frames are counted from the innermost, 0.
  static PythonNames Running(size_t frame, Of of);
  // The same for a frame that makes the op, if it does: gradients have the lines of other ops.
  static PythonNames RunningAt(const Plan& plan, const proto::OpDesc& op, size_t frame, Of of);
  // Of a frame that made the op; see NamesAt.
  static PythonNames Made(const Plan& plan, const proto::OpDesc& op, size_t frames, bool after);

  void Read() const;
  // The variable, or null.
  const PythonName* Find(uint32_t program, const std::string& name) const;
  const std::vector<PythonName>& all() const;

 private:
  using Reader = std::function<std::vector<PythonName>()>;
  explicit PythonNames(Reader reader) : reader_(std::move(reader)) {}

  Reader reader_;
  mutable bool read_ = false;
  mutable std::vector<PythonName> names_;
};

}  // namespace opstep
