// The values of the names of one Python frame.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "opstep/bindings/frames/frames.h"

namespace opstep::python {

// Visits the values of the names of one Python frame: variables of programs and runtime values,
// also those in objects and layers. Runs no user code.
class FrameNames {
 public:
  explicit FrameNames(size_t most) : left_(most) {}
  virtual ~FrameNames() = default;
  void Locals(PyFrameObject* frame);
  // All of a module's names, or only those that the frame's code uses.
  void Globals(PyObject* globals);
  void GlobalsUsedBy(const Code& code, PyObject* globals);

  // The places of a variable's parts, found without running Python code.
  struct VariableParts {
    PyObject* name;
    uint32_t program;
  };
  static VariableParts PartsOf(PyObject* variable);
  static bool IsVariable(PyObject* value);
  // Is it a variable or a runtime value?
  static bool IsTensor(PyObject* value);

 protected:
  static constexpr size_t kMostParts = 16;
  virtual void OnVariable(PyObject* variable) = 0;
  virtual void OnValue(PyObject* value) = 0;
  // A value of a layer that is called in a program: the variable's name there.
  virtual void OnNamed(PyObject* variable, uint32_t program) = 0;
  virtual bool Wants(uint32_t program) const {
    (void)program;
    return true;
  }
  // The value of a module's or a class's name. May be called more than once.
  virtual void OnNames(PyObject* names) { (void)names; }
  // A function's local name and its value; null when it has none.
  virtual void OnLocal(PyObject* name, PyObject* value) {
    (void)name;
    (void)value;
  }
  // "self.blocks[0].w", the current path.
  std::string Name() const { return NameOf(parts_, depth_); }
  // Empty for a name that nobody can type.
  static std::string NameOf(const std::array<PyObject*, kMostParts>& parts, size_t depth);
  const std::array<PyObject*, kMostParts>& parts() const { return parts_; }
  size_t depth() const { return depth_; }
  // May other functions assign it: a module's name, or one that is in a closure?
  bool is_shared() const { return is_shared_; }
  // Were there any such names, or attributes?
  bool saw_shared() const { return saw_shared_; }
  bool kept_by_layer() const { return kept_by_layer_; }

 private:
  void All(PyObject* dict);
  void Look(PyObject* name, PyObject* value);
  void Attributes(PyObject* object, bool is_layer);
  void ValuesOfLayer(PyObject* attributes);
  void NamesInPrograms(PyObject* names);
  void Items(PyObject* layers);

  size_t left_;  // how many more names may be visited
  std::array<PyObject*, kMostParts> parts_{};
  size_t depth_ = 0;
  bool kept_by_layer_ = false;
  bool is_shared_ = false;
  bool saw_shared_ = false;
  std::vector<PyObject*> around_;  // objects whose attributes are being visited
};

}  // namespace opstep::python
