#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/tensor.h"

namespace opstep {

// A name in the user's Python code that holds a variable of a program.
struct PythonName {
  std::string name;  // "loss", or "self.loss" of an object
  uint32_t program = 0;
  std::string variable;
  // Or a value of imperative mode that the op does not read: no variable, but its elements.
  Tensor value = {};
  bool parameter = false;  // a layer keeps it
};

// What the Python frames of one thread call variables, so that expressions can say it as well. They
// are read at once by Read, or when the first name is asked for; either on that thread and without
// any lock, for it may wait for Python's.
class PythonNames {
 public:
  // Values keep their memory for as long as their names are kept: they are for who looks now.
  enum class Of : uint8_t { kVariables, kVariablesAndValues };
  explicit PythonNames(Of of = Of::kVariables) : of_(of) {}
  void Read() const;
  // The variable, or null. Like a fetch it is found by its name alone, but one of the same program
  // comes first.
  const PythonName* Find(uint32_t program, const std::string& name) const;
  // Those that the inner frames hide are not among them.
  const std::vector<PythonName>& all() const;

 private:
  Of of_;
  mutable bool read_ = false;
  mutable std::vector<PythonName> names_;
};

}  // namespace opstep
