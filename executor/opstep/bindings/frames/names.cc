// The variable names in a frame of the user's running Python code, for the debugger's expressions.
#include <algorithm>
#include <set>

#include "debug/agent.h"
#include "debug/plans/made_by.h"
#include "opstep/bindings/bindings.h"
#include "opstep/bindings/frames/frame_names.h"
#include "opstep/bindings/imperative/values.h"

namespace opstep::python {
namespace {

constexpr size_t kMaxNames = 10000;

class Collector : public FrameNames {
 public:
  explicit Collector(bool values) : FrameNames(kMaxNames), values_(values) {}

  // The names of one frame, of its enclosing functions and of its module.
  std::vector<PythonName> Collect(const std::vector<py::object>& frames, size_t at) {
    const std::vector<SourceFrame> stack = UserStack();
    std::string inner;
    for (size_t i = at; i < std::min(frames.size(), stack.size()); ++i) {
      const bool around = stack[i].file == stack[at].file && IsInside(inner, stack[i].function);
      if (i > at && !around) continue;
      Locals(reinterpret_cast<PyFrameObject*>(frames[i].ptr()));
      inner = stack[i].function;
    }
    const py::object globals = frames[at].attr("f_globals");
    Globals(globals.ptr());
    return std::move(names_);
  }

 private:
  void OnVariable(PyObject* variable) override {
    const VariableParts is = PartsOf(variable);
    const char* text = is.name ? PyUnicode_AsUTF8(is.name) : nullptr;
    if (!text) return PyErr_Clear();
    Add({Name(), is.program, text});
  }

  // A layer may be in several programs.
  void OnNamed(PyObject* variable, uint32_t program) override {
    const char* text = PyUnicode_AsUTF8(variable);
    if (!text) return PyErr_Clear();
    PythonName found{Name(), program, text};
    found.parameter = true;
    if (found.name.empty()) return;
    known_.insert(found.name);
    names_.push_back(std::move(found));
  }

  // A value that the running op reads is a variable of its program.
  void OnValue(PyObject* value) override {
    PythonName found{Name(), 0, ""};
    found.parameter = kept_by_layer();
    const bool read = NameInTrace(value, found.program, found.variable);
    if (!read && !values_) return AddOther(found.name, true);
    const ValuePtr core = CoreOf(value);
    if (!read) found.value = core->tensor();
    const std::string name = found.name;
    if (Add(std::move(found)) && values_ && core->gradient)
      names_.push_back({name + ".gradient", 0, "", core->gradient->tensor()});
  }

  // A name that holds no variable hides a variable of that name.
  void OnLocal(PyObject* name, PyObject* value) override {
    if (!value || !IsTensor(value)) AddOther(TextOf(name));
  }
  void OnNames(PyObject* names) override {
    if (!PyDict_Check(names)) return;
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t at = 0;
    while (PyDict_Next(names, &at, &key, &value)) {
      if (!IsTensor(value)) AddOther(TextOf(key));
    }
  }

  // Empty for a name that cannot be typed.
  static std::string TextOf(PyObject* name) {
    const char* text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
    if (!text) PyErr_Clear();
    return text ? text : "";
  }
  void AddOther(std::string name, bool unread = false) {
    PythonName other{std::move(name), 0, ""};
    other.other = true;
    other.unread = unread;
    Add(std::move(other));
  }

  // A name of the function may hide a module's name.
  bool Add(PythonName found) {
    if (found.name.empty() || !known_.insert(found.name).second) return false;
    names_.push_back(std::move(found));
    return true;
  }

  const bool values_;
  std::vector<PythonName> names_;
  std::set<std::string> known_;
};

// Called by the agent on a thread that runs a plan and has released the GIL for that.
PythonFrame ReadNames(size_t frame, bool values) {
  if (Finalizing()) return {};
  py::gil_scoped_acquire gil;
  try {
    const std::vector<py::object> frames = UserFrames();
    if (frame >= frames.size()) return {};
    return {UserStack()[frame], Collector(values).Collect(frames, frame)};
  } catch (const std::exception&) {
    return {};  // A variable that is not fully constructed.
  }
}

}  // namespace

void BindNames(py::module_&) { SetPythonNames(&ReadNames); }

}  // namespace opstep::python
