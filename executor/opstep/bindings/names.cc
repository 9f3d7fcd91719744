// What the user's Python code calls variables, for the debugger's expressions.
#include <algorithm>
#include <set>
#include <unordered_set>

#include "debug/agent.h"
#include "opstep/bindings/bindings.h"
#include "opstep/bindings/values.h"

namespace opstep::python {
namespace {

constexpr size_t kMaxNames = 10000;

// The class opstep.Variable. Leaked: Python objects must not be released after the interpreter has
// ended.
py::object& VariableType() {
  static auto* type = new py::object;
  return *type;
}

// The class opstep.imperative.Layer. Leaked, too.
py::object& LayerType() {
  static auto* type = new py::object;
  return *type;
}

constexpr size_t kMostLayers = 16;  // inside each other

// Looks without running any of the user's code: the thread stands still in the debugger.
class Collector {
 public:
  explicit Collector(bool values) : values_(values) {}

  std::vector<PythonName> Collect() {
    for (const py::object& frame : UserFrames()) {
      AddLocals(frame);
      const py::object globals = frame.attr("f_globals");
      if (seen_.insert(globals.ptr()).second) AddAll(globals.ptr(), "");
    }
    return std::move(names_);
  }

 private:
  void AddLocals(const py::object& frame) {
    const py::object code = frame.attr("f_code");
    if (!(code.attr("co_flags").cast<int>() & CO_OPTIMIZED)) {
      // The frame of a module or a class: its locals are a dictionary of their own.
      const py::object locals = frame.attr("f_locals");
      if (seen_.insert(locals.ptr()).second) AddAll(locals.ptr(), "");
      return;
    }
#if PY_VERSION_HEX >= 0x030c0000
    for (const char* names : {"co_varnames", "co_cellvars", "co_freevars"}) {
      for (const py::handle name : code.attr(names)) {
        PyObject* value = PyFrame_GetVar(reinterpret_cast<PyFrameObject*>(frame.ptr()), name.ptr());
        if (!value) {
          PyErr_Clear();  // It has no value yet.
          continue;
        }
        Add(name.ptr(), value, "");
        Py_DECREF(value);
      }
    }
#else
    // Reading makes a copy of the locals that the frame keeps, and that its own code may see.
    if (SeesItsLocals(code) || !frame.attr("f_trace").is_none()) return;
    const py::object locals = frame.attr("f_locals");
    AddAll(locals.ptr(), "");
    // The copy must not keep values alive that the function lets go; another's is not ours.
    if (Py_REFCNT(locals.ptr()) > 2) return;
    for (const char* names : {"co_varnames", "co_cellvars", "co_freevars"}) {
      for (const py::handle name : code.attr(names)) {
        if (PyDict_DelItem(locals.ptr(), name.ptr()) != 0) PyErr_Clear();  // It had no value.
      }
    }
#endif
  }

#if PY_VERSION_HEX < 0x030c0000
  static bool SeesItsLocals(const py::object& code) {
    for (const py::handle name : code.attr("co_names")) {
      for (const char* seeing : {"locals", "vars", "dir", "exec", "eval", "_getframe"}) {
        if (PyUnicode_CompareWithASCIIString(name.ptr(), seeing) == 0) return true;
      }
    }
    return false;
  }
#endif

  void AddAll(PyObject* dict, const std::string& prefix) {
    if (!PyDict_Check(dict)) return;
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &key, &value)) Add(key, value, prefix);
  }

  void Add(PyObject* key, PyObject* value, const std::string& prefix) {
    if (!PyUnicode_Check(key) || names_.size() >= kMaxNames) return;
    const char* text = PyUnicode_AsUTF8(key);
    if (!text) {
      PyErr_Clear();  // A name that nobody can type.
      return;
    }
    if (IsValue(value)) {
      AddValue(value, prefix + text);
    } else if (PyObject_TypeCheck(value, reinterpret_cast<PyTypeObject*>(VariableType().ptr()))) {
      const std::string name = prefix + text;
      const py::handle variable(value);
      const py::object program = variable.attr("block").attr("program").attr("_core");
      if (!known_.insert(name).second) return;
      names_.push_back(
          {name, program.cast<const Program&>().id(), variable.attr("name").cast<std::string>()});
    } else if (IsLayer(value)) {
      AddLayer(value, prefix + text + ".");
    } else if (prefix.empty() && IsPlainObject(value)) {
      PyObject* attributes = PyObject_GenericGetDict(value, nullptr);
      if (!attributes) {
        PyErr_Clear();  // Its class has slots only.
        return;
      }
      AddAll(attributes, std::string(text) + ".");
      Py_DECREF(attributes);
    }
  }

  // One that the op under way reads is a variable of its program.
  void AddValue(PyObject* value, const std::string& name) {
    if (!known_.insert(name).second) return;
    PythonName found{name, 0, ""};
    const bool read = NameInTrace(value, found.program, found.variable);
    if (!read && !values_) return;
    const ValuePtr core = CoreOf(value);
    if (!read) found.value = core->tensor();
    names_.push_back(std::move(found));
    if (values_ && core->gradient)
      names_.push_back({name + ".gradient", 0, "", core->gradient->tensor()});
  }

  static bool IsLayer(PyObject* value) {
    return LayerType() &&
           PyObject_TypeCheck(value, reinterpret_cast<PyTypeObject*>(LayerType().ptr()));
  }

  // Its attributes, with the layers among them, and the values that it keeps: net.hidden.w.
  void AddLayer(PyObject* layer, const std::string& prefix) {
    if (around_.size() == kMostLayers) return;
    if (std::find(around_.begin(), around_.end(), layer) != around_.end()) return;
    PyObject* attributes = PyObject_GenericGetDict(layer, nullptr);
    if (!attributes) {
      PyErr_Clear();
      return;
    }
    PyObject* kept = PyDict_GetItemString(attributes, "_values");
    around_.push_back(layer);
    const size_t first = names_.size();
    if (kept) AddAll(kept, prefix);
    for (size_t i = first; i < names_.size(); ++i) names_[i].parameter = true;
    AddAll(attributes, prefix);
    around_.pop_back();
    Py_DECREF(attributes);
  }

  // Of a class that was written in Python and finds attributes in the usual way.
  static bool IsPlainObject(PyObject* value) {
    const PyTypeObject* type = Py_TYPE(value);
    return PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HEAPTYPE) &&
           type->tp_getattro == PyObject_GenericGetAttr && !PyType_Check(value) &&
           !PyModule_Check(value);
  }

  const bool values_;
  std::vector<PythonName> names_;
  std::set<std::string> known_;
  std::unordered_set<PyObject*> seen_;
  std::vector<PyObject*> around_;  // layers that are being looked into
};

// Called by the agent on a thread that runs a plan, which has given up the GIL for that.
std::vector<PythonName> ReadNames(bool values) {
  if (Finalizing()) return {};
  py::gil_scoped_acquire gil;
  if (!VariableType()) return {};
  try {
    return Collector(values).Collect();
  } catch (const std::exception&) {
    return {};  // A variable that is only half made.
  }
}

}  // namespace

void BindNames(py::module_& m) {
  SetPythonNames(&ReadNames);
  m.def("set_layer_type", [](py::object type) { LayerType() = std::move(type); });
  m.def("set_variable_type", [](py::object type) { VariableType() = std::move(type); });
}

}  // namespace opstep::python
