// TraceKey: types, attributes and texts as bytes.
#include "opstep/bindings/imperative/trace_key.h"

#include "opstep/bindings/imperative/values.h"

namespace opstep::python {
namespace {

// Does its text identify it? Other objects may change, or their text may only be an address.
bool TextTells(PyObject* value) {
  static PyObject* const kinds = py::make_tuple(py::module_::import("numpy").attr("generic"),
                                                py::module_::import("numpy").attr("dtype"),
                                                py::type::of(py::type::of(py::none())))
                                     .release()
                                     .ptr();
  return PyObject_IsInstance(value, kinds) == 1;
}

// Larger arrays among the attributes are not compared: such an op is compiled at every call.
constexpr py::ssize_t kLargestArray = 4096;

}  // namespace

void TraceKey::AddText(PyObject* text) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text, &size);
  if (!bytes) throw py::error_already_set();
  AddText(std::string_view(bytes, static_cast<size_t>(size)));
}

void TraceKey::AddType(const Tensor& tensor) {
  Add(tensor.dtype);
  Add(static_cast<char>(tensor.dims.rank()));
  bytes_.append(reinterpret_cast<const char*>(tensor.dims.begin()),
                sizeof(int64_t) * static_cast<size_t>(tensor.dims.rank()));
}

bool TraceKey::AddAttr(PyObject* value) {
  if (PyBool_Check(value) || value == Py_None) {
    Add(value == Py_True ? 'T' : value == Py_False ? 'F' : 'N');
  } else if (PyLong_Check(value)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow) return false;
    Add('i');
    Add(number);
  } else if (PyFloat_Check(value)) {
    Add('f');
    Add(PyFloat_AS_DOUBLE(value));
  } else if (PyUnicode_Check(value)) {
    Add('s');
    AddText(value);
  } else if (PyList_Check(value) || PyTuple_Check(value)) {
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(value);
    Add('[');
    Add(size);
    for (Py_ssize_t i = 0; i < size; ++i) {
      if (!AddAttr(PySequence_Fast_GET_ITEM(value, i))) return false;
    }
  } else if (IsValue(value)) {
    return AddAttr(py::handle(value).attr("numpy")().ptr());
  } else if (py::isinstance<py::array>(value)) {
    const auto array = py::reinterpret_borrow<py::array>(value);
    if (array.nbytes() > kLargestArray || array.dtype().kind() == 'O') return false;
    Add('a');
    AddText(py::str(static_cast<py::object>(array.dtype())).ptr());
    AddText(py::repr(array.attr("shape")).ptr());
    AddText(std::string(array.attr("tobytes")().cast<py::bytes>()));
  } else if (TextTells(value)) {
    Add('r');
    AddText(py::repr(value).ptr());
  } else {
    return false;
  }
  return true;
}

}  // namespace opstep::python
