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
  // Or a value of imperative mode that the op does not read: no variable, but its elements.
  Tensor value = {};
  bool parameter = false;  // a layer keeps it
  uint32_t line = 0;       // that assigned it, of a frame that made an op; 0: not known
  bool other = false;      // it holds no variable at all, though one of the program is called so
  bool known = true;       // not known: then nothing but that the name is there, and `other`
};

// What one Python frame calls variables, so that expressions can say it as well. Those of a frame
// that made an op are as they were then; those of a frame that is running are as they are now, and
// are read when the first name is asked for, on that thread and without any lock, for it may wait
// for Python's.
class PythonNames {
 public:
  // Values keep their memory for as long as their names are kept: they are for who looks now.
  enum class Of : uint8_t { kVariables, kVariablesAndValues };
  // Of a frame of the thread that asks: the user's frames are counted from the innermost, 0.
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
