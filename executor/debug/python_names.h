#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace opstep {

// A name in the user's Python code that holds a variable of a program.
struct PythonName {
  std::string name;  // "loss", or "self.loss" of an object
  uint32_t program = 0;
  std::string variable;
};

// What the Python frames of one thread call variables, so that expressions can say it as well. They
// are read at once by Read, or when the first name is asked for; either on that thread and without
// any lock, for it may wait for Python's.
class PythonNames {
 public:
  void Read() const;
  // The variable, or null. Like a fetch it is found by its name alone, but one of the same program
  // comes first.
  const std::string* Find(uint32_t program, const std::string& name) const;
  // Those that the inner frames hide are not among them.
  const std::vector<PythonName>& all() const;

 private:
  mutable bool read_ = false;
  mutable std::vector<PythonName> names_;
};

}  // namespace opstep
