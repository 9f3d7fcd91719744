// Runtime values of imperative mode.
#include "opstep/bindings/values.h"

#include <pybind11/stl.h>

namespace opstep::python {
namespace {

// The class opstep.imperative.Value, whose slot `_core` holds a RuntimeValue. Leaked: Python
// objects must not be released after the interpreter has ended.
py::object& ValueType() {
  static auto* type = new py::object;
  return *type;
}

PyObject* CoreName() {
  static PyObject* name = PyUnicode_InternFromString("_core");
  return name;
}

// Shares the array's memory where the layout allows; the value keeps the array alive.
ValuePtr FromArray(const py::array& array) {
  std::vector<py::object> keep;
  Tensor tensor = BorrowArray(array, keep, "the value");
  tensor.owner = std::shared_ptr<void>(tensor.data, [object = keep[0].release().ptr()](void*) {
    if (Finalizing()) return;
    const py::gil_scoped_acquire gil;
    Py_DECREF(object);
  });
  return MakeValue(std::move(tensor));
}

py::tuple Shape(const RuntimeValue& value) {
  const Dims& dims = value.tensor().dims;
  py::tuple shape(dims.rank());
  for (int i = 0; i < dims.rank(); ++i) shape[i] = py::int_(dims[i]);
  return shape;
}

// The same memory, apart from the tape.
ValuePtr Detach(const RuntimeValue& value) {
  auto made = std::make_shared<RuntimeValue>();
  made->buffer = value.buffer;
  made->name = value.name;
  return made;
}

void SetStopGradient(RuntimeValue& value, bool stop) {
  OPSTEP_CHECK(stop || IsFloat(value.tensor().dtype), "a value of dtype ",
               NameOf(value.tensor().dtype), " has no gradient: only floats have", UserPlace());
  value.stop_gradient = stop;
}

template <typename F>
auto WithoutGilOnLine(F&& run) {
  try {
    const WithoutGil released;
    return run();
  } catch (const OpError&) {
    throw;
  } catch (const Error& error) {
    // What could not be differentiated names its own line.
    const std::string what = error.what();
    throw Error(what.ends_with(")") ? what : what + UserPlace());
  }
}

py::list Backward(const ValuePtr& loss, bool retain) {
  auto pairs = WithoutGilOnLine([&] { return RunBackward(loss, retain); });
  py::list out;
  for (auto& [leaf, gradient] : pairs)
    out.append(py::make_tuple(std::move(leaf), std::move(gradient)));
  return out;
}

std::vector<ValuePtr> Gradients(const ValuePtr& loss, const std::vector<ValuePtr>& wanted,
                                bool retain, bool record) {
  return WithoutGilOnLine([&] { return RunGradients(loss, wanted, retain, record); });
}

}  // namespace

bool IsValue(PyObject* object) {
  return ValueType() &&
         PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(ValueType().ptr()));
}

ValuePtr CoreOf(PyObject* value) {
  const py::object core = py::reinterpret_steal<py::object>(PyObject_GetAttr(value, CoreName()));
  if (!core) throw py::error_already_set();
  // Only a RuntimeValue is ever set there, so its type need not be looked up.
  auto* instance = reinterpret_cast<py::detail::instance*>(core.ptr());
  return instance->get_value_and_holder().holder<ValuePtr>();
}

py::object ToPython(ValuePtr value) {
  auto* type = reinterpret_cast<PyTypeObject*>(ValueType().ptr());
  const py::object made = py::reinterpret_steal<py::object>(type->tp_alloc(type, 0));
  const py::object core = py::cast(std::move(value));
  if (!made || PyObject_SetAttr(made.ptr(), CoreName(), core.ptr()) != 0)
    throw py::error_already_set();
  return made;
}

py::array NumpyScalar(py::handle number, DType dtype) {
  return py::module_::import("numpy").attr("asarray")(number, NumpyType(dtype)).cast<py::array>();
}

void BindValues(py::module_& m) {
  py::class_<RuntimeValue, ValuePtr>(m, "RuntimeValue")
      .def(py::init(&FromArray))
      .def("array", [](const RuntimeValue& value) { return ToArray(value.tensor()); })
      .def_property_readonly("shape", &Shape)
      .def_property_readonly(
          "dtype",
          [](const RuntimeValue& value) { return std::string(NameOf(value.tensor().dtype)); })
      .def_readwrite("name", &RuntimeValue::name)
      .def_property(
          "stop_gradient", [](const RuntimeValue& value) { return value.stop_gradient; },
          &SetStopGradient)
      .def_readwrite("gradient", &RuntimeValue::gradient)
      .def_property_readonly("is_leaf",
                             [](const RuntimeValue& value) { return value.node == nullptr; })
      .def("detach", &Detach)
      .def("backward", &Backward)
      .def("gradients", &Gradients);
  // A run in the scope reads and writes the value's memory.
  m.def("share_value", [](Scope& scope, const std::string& name, const RuntimeValue& value) {
    scope.Set(name, value.tensor());
  });
  m.def("set_value_type", [](py::object type) { ValueType() = std::move(type); });
}

}  // namespace opstep::python
