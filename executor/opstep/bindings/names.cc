// What a frame of the user's running Python code calls variables, for the debugger's expressions.
#include <set>

#include "debug/agent.h"
#include "opstep/bindings/bindings.h"
#include "opstep/bindings/frame_names.h"
#include "opstep/bindings/values.h"

namespace opstep::python {
namespace {

constexpr size_t kMaxNames = 10000;

class Collector : public FrameNames {
 public:
  explicit Collector(bool values) : FrameNames(kMaxNames), values_(values) {}

  std::vector<PythonName> Collect(const py::object& frame) {
    auto* raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
    Locals(raw);
    const py::object globals = frame.attr("f_globals");
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

  // One that the op under way reads is a variable of its program.
  void OnValue(PyObject* value) override {
    PythonName found{Name(), 0, ""};
    found.parameter = kept_by_layer();
    const bool read = NameInTrace(value, found.program, found.variable);
    if (!read && !values_) return;
    const ValuePtr core = CoreOf(value);
    if (!read) found.value = core->tensor();
    const std::string name = found.name;
    if (Add(std::move(found)) && values_ && core->gradient)
      names_.push_back({name + ".gradient", 0, "", core->gradient->tensor()});
  }

  // What holds no variable hides one that is called so.
  void OnNames(PyObject* names) override {
    if (!PyDict_Check(names)) return;
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t at = 0;
    while (PyDict_Next(names, &at, &key, &value)) {
      const char* text = PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : nullptr;
      if (!text) {
        PyErr_Clear();  // A name that nobody can type.
      } else if (!IsTensor(value)) {
        PythonName other{text, 0, ""};
        other.other = true;
        Add(std::move(other));
      }
    }
  }

  // A module's name may be hidden by one of the function's own.
  bool Add(PythonName found) {
    if (found.name.empty() || !known_.insert(found.name).second) return false;
    names_.push_back(std::move(found));
    return true;
  }

  const bool values_;
  std::vector<PythonName> names_;
  std::set<std::string> known_;
};

// Called by the agent on a thread that runs a plan, which has given up the GIL for that.
std::vector<PythonName> ReadNames(size_t frame, bool values) {
  if (Finalizing()) return {};
  py::gil_scoped_acquire gil;
  try {
    const std::vector<py::object> frames = UserFrames();
    if (frame >= frames.size()) return {};
    return Collector(values).Collect(frames[frame]);
  } catch (const std::exception&) {
    return {};  // A variable that is only half made.
  }
}

}  // namespace

void BindNames(py::module_&) { SetPythonNames(&ReadNames); }

}  // namespace opstep::python
