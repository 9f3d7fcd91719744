// FrameNames: variables in names, objects and layers.
#include "opstep/bindings/frames/frame_names.h"

#include <structmember.h>

#include <algorithm>

#include "opstep/bindings/frames/frame_locals.h"
#include "opstep/bindings/imperative/values.h"

namespace opstep::python {
namespace {

// Plain objects inside each other: self.decoder.attention.w.
constexpr size_t kMostObjects = 4;

// The classes opstep.Variable and opstep.imperative.Layer. Leaked: Python objects must not be
// released after the interpreter has ended.
struct Types {
  py::object variable, layer;
  Py_ssize_t name_at = 0, program_at = 0;  // in a variable
};
Types& Known() {
  static auto* types = new Types;
  return *types;
}

bool IsA(PyObject* value, const py::object& type) {
  return type && PyObject_TypeCheck(value, reinterpret_cast<PyTypeObject*>(type.ptr()));
}

// Is its class written in Python, with the usual attribute lookup?
bool IsPlainObject(PyObject* value) {
  return Py_TYPE(value)->tp_getattro == PyObject_GenericGetAttr && !PyType_Check(value) &&
         !PyModule_Check(value);
}

Py_ssize_t OffsetOf(const py::object& type, const char* slot) {
  const py::object member = type.attr(slot);
  OPSTEP_CHECK(Py_TYPE(member.ptr()) == &PyMemberDescr_Type, "Variable.", slot, " must be a slot");
  return reinterpret_cast<PyMemberDescrObject*>(member.ptr())->d_member->offset;
}

// Of a module or a class: its dictionary.
py::object DictOf(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030b0000
  PyObject* locals = PyFrame_GetLocals(frame);
  if (!locals) throw py::error_already_set();
  const py::object found = py::reinterpret_steal<py::object>(locals);
#else
  const py::object found = py::handle(reinterpret_cast<PyObject*>(frame)).attr("f_locals");
#endif
  // In a comprehension of Python 3.13 it is a proxy that looks like a dict.
  return PyDict_Check(found.ptr()) || !PyMapping_Check(found.ptr()) ? found : py::dict(found);
}

bool IsOfConvertedCode(PyObject* name) {
  static PyObject* const prefix = PyUnicode_InternFromString("_opstep");
  return PyUnicode_Tailmatch(name, prefix, 0, PY_SSIZE_T_MAX, -1) == 1;
}

PyObject* At(PyObject* object, Py_ssize_t offset) {
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
}

}  // namespace

FrameNames::VariableParts FrameNames::PartsOf(PyObject* variable) {
  PyObject* const name = At(variable, Known().name_at);
  PyObject* const program = At(variable, Known().program_at);
  if (!name || !program || !PyUnicode_Check(name) || !PyLong_Check(program)) return {nullptr, 0};
  return {name, static_cast<uint32_t>(PyLong_AsUnsignedLong(program))};
}

bool FrameNames::IsVariable(PyObject* value) { return IsA(value, Known().variable); }

bool FrameNames::IsTensor(PyObject* value) { return IsValue(value) || IsVariable(value); }

std::string FrameNames::NameOf(const std::array<PyObject*, kMostParts>& parts, size_t depth) {
  std::string name;
  for (size_t i = 0; i < depth; ++i) {
    const char* text = PyUnicode_AsUTF8(parts[i]);
    if (!text) {
      PyErr_Clear();
      return "";
    }
    name += (i && *text != '[' ? "." : "") + std::string(text);
  }
  return name;
}

void FrameNames::Locals(PyFrameObject* frame) {
  const FrameLocals locals(frame);
  if (!locals.of_function()) {
    const py::object names = DictOf(frame);
    is_shared_ = saw_shared_ = true;
    All(names.ptr());
    OnNames(names.ptr());
    return;
  }
  for (size_t i = 0; i < locals.size(); ++i) {
    PyObject* const value = locals.value(i);
    is_shared_ = locals.is_shared(i);
    saw_shared_ = saw_shared_ || is_shared_;
    if (value && left_ > 0) {
      --left_;
      Look(locals.name(i), value);
    }
    OnLocal(locals.name(i), value);
  }
}

void FrameNames::Globals(PyObject* globals) {
  is_shared_ = saw_shared_ = true;
  All(globals);
  OnNames(globals);
}

void FrameNames::GlobalsUsedBy(const Code& code, PyObject* globals) {
  if (!PyDict_Check(globals)) return;
  is_shared_ = saw_shared_ = true;
  for (const py::handle name : code.keep.attr("co_names")) {
    if (PyObject* value = PyDict_GetItemWithError(globals, name.ptr())) {
      Look(name.ptr(), value);
    } else {
      PyErr_Clear();
    }
  }
}

void FrameNames::All(PyObject* dict) {
  if (!PyDict_Check(dict)) return;
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  while (left_ > 0 && PyDict_Next(dict, &at, &key, &value)) {
    --left_;
    Look(key, value);
  }
}

void FrameNames::Look(PyObject* name, PyObject* value) {
  // Classes that Python code made: variables, values, layers and the user's own.
  if (!PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HEAPTYPE)) return;
  if (depth_ == kMostParts || !PyUnicode_Check(name) || !PyUnicode_IsIdentifier(name)) return;
  // A name of converted code, which nobody wrote.
  if (depth_ == 0 && IsOfConvertedCode(name)) return;
  parts_[depth_++] = name;
  if (IsValue(value)) {
    OnValue(value);
  } else if (IsA(value, Known().variable)) {
    OnVariable(value);
  } else if (IsA(value, Known().layer)) {
    Attributes(value, true);
  } else if (around_.size() < kMostObjects && IsPlainObject(value)) {
    Attributes(value, false);
  }
  --depth_;
}

// For a layer also its values: net.hidden.w.
void FrameNames::Attributes(PyObject* object, bool is_layer) {
  if (std::find(around_.begin(), around_.end(), object) != around_.end()) return;
  PyObject* attributes = PyObject_GenericGetDict(object, nullptr);
  if (!attributes) {
    PyErr_Clear();  // Its class has slots only.
    return;
  }
  around_.push_back(object);
  saw_shared_ = true;
  if (is_layer) ValuesOfLayer(attributes);
  All(attributes);
  around_.pop_back();
  Py_DECREF(attributes);
}

void FrameNames::ValuesOfLayer(PyObject* attributes) {
  static PyObject* const values = PyUnicode_InternFromString("_values");
  static PyObject* const names = PyUnicode_InternFromString("_program_names");
  static PyObject* const layers = PyUnicode_InternFromString("_layers");
  if (PyObject* kept = PyDict_GetItemWithError(attributes, values)) {
    kept_by_layer_ = true;
    All(kept);
    kept_by_layer_ = false;
  }
  if (PyObject* named = PyDict_GetItemWithError(attributes, names)) NamesInPrograms(named);
  if (PyObject* inner = PyDict_GetItemWithError(attributes, layers)) Items(inner);
  if (PyErr_Occurred()) PyErr_Clear();
}

// By program id: the variables' names by the layer's own.
void FrameNames::NamesInPrograms(PyObject* names) {
  if (!PyDict_Check(names)) return;
  PyObject *id = nullptr, *variables = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(names, &at, &id, &variables)) {
    if (!PyLong_Check(id) || !PyDict_Check(variables)) continue;
    const auto program = static_cast<uint32_t>(PyLong_AsUnsignedLong(id));
    if (!Wants(program)) continue;
    PyObject *key = nullptr, *variable = nullptr;
    Py_ssize_t in = 0;
    while (left_ > 0 && depth_ < kMostParts && PyDict_Next(variables, &in, &key, &variable)) {
      --left_;
      if (!PyUnicode_Check(key) || !PyUnicode_IsIdentifier(key) || !PyUnicode_Check(variable))
        continue;
      parts_[depth_++] = key;
      OnNamed(variable, program);
      --depth_;
    }
  }
}

// The layers of a LayerList: self.blocks[0]. Those of other layers are attributes.
void FrameNames::Items(PyObject* layers) {
  if (!PyDict_Check(layers)) return;
  PyObject *key = nullptr, *layer = nullptr;
  Py_ssize_t at = 0;
  while (left_ > 0 && depth_ < kMostParts && PyDict_Next(layers, &at, &key, &layer)) {
    const char* text = PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : nullptr;
    if (!text || *text < '0' || *text > '9' || !IsA(layer, Known().layer)) return;
    --left_;
    // Kept: few numbers are ever used, and names are compared by these objects.
    const py::str index = "[" + std::string(text) + "]";
    PyObject* name = index.inc_ref().ptr();
    PyUnicode_InternInPlace(&name);
    parts_[depth_++] = name;
    Attributes(layer, true);
    --depth_;
  }
}

void BindFrameNames(py::module_& m) {
  m.def("set_layer_type", [](py::object type) { Known().layer = std::move(type); });
  m.def("set_variable_type", [](py::object type) {
    Known().name_at = OffsetOf(type, "name");
    Known().program_at = OffsetOf(type, "_program_id");
    Known().variable = std::move(type);
  });
}

}  // namespace opstep::python
