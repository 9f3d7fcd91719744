// Runtime values of imperative mode: the base type of opstep.imperative.Value.
#include "opstep/bindings/imperative/values.h"

#include <pybind11/stl.h>
#include <structmember.h>

#include <array>
#include <cstddef>

namespace opstep::python {
namespace {

// The base, and the class of ops' results. Leaked, as all Python objects here: they must not be
// released after the interpreter has ended.
PyTypeObject* base_type = nullptr;
PyTypeObject* value_type = nullptr;

ValueObject* AsValue(PyObject* object) { return reinterpret_cast<ValueObject*>(object); }

PyObject* New(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* made = type->tp_alloc(type, 0);
  if (made) new (&AsValue(made)->core) ValuePtr;
  return made;
}

void Free(PyObject* self) {
  ValueObject* value = AsValue(self);
  PyTypeObject* type = Py_TYPE(self);
  if (value->weak_references) PyObject_ClearWeakRefs(self);
  if (value->core && value->core->shown_as == self) value->core->shown_as = nullptr;
  value->core.~ValuePtr();
  type->tp_free(self);
  Py_DECREF(type);
}

// A method or attribute in C++: its errors become Python's.
template <auto kFunction, typename... Args>
PyObject* Guarded(Args... args) {
  try {
    return py::object(kFunction(args...)).release().ptr();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (...) {
    py::detail::try_translate_exceptions();
  }
  return nullptr;
}

RuntimeValue& Core(PyObject* self) { return *CoreOf(self); }

py::object Shape(PyObject* self) {
  const Dims& dims = Core(self).tensor().dims;
  py::tuple shape(dims.rank());
  for (int i = 0; i < dims.rank(); ++i) shape[i] = py::int_(dims[i]);
  return shape;
}

py::object DTypeName(PyObject* self) {
  const std::string_view name = NameOf(Core(self).tensor().dtype);
  return py::str(name.data(), name.size());
}

py::object Name(PyObject* self) { return py::str(Core(self).name); }
py::object StopGradient(PyObject* self) { return py::bool_(Core(self).stop_gradient); }
py::object IsLeaf(PyObject* self) { return py::bool_(Core(self).node == nullptr); }

// Memory that gradients may need must not be written to: nobody would notice.
py::object Array(PyObject* self) {
  const RuntimeValue& value = Core(self);
  py::array array = ToArray(value.tensor());
  if (value.node != nullptr) {
    py::detail::array_proxy(array.ptr())->flags &=
        ~static_cast<int>(py::detail::npy_api::NPY_ARRAY_WRITEABLE_);
  }
  return array;
}

py::object Gradient(PyObject* self) {
  const ValuePtr& gradient = Core(self).gradient;
  return gradient ? ToPython(gradient) : py::none();
}

// The same memory, apart from the tape.
py::object Detach(PyObject* self) {
  auto made = std::make_shared<RuntimeValue>();
  made->buffer = Core(self).buffer;
  made->name = Core(self).name;
  return ToPython(std::move(made));
}

// Its memory was changed by something other than ops.
py::object Written(PyObject* self) {
  Core(self).buffer->writes.fetch_add(1, std::memory_order_relaxed);
  return py::none();
}

py::object SetName(PyObject* self, PyObject* name) {
  Core(self).name = py::cast<std::string>(name);
  return py::none();
}

py::object SetStopGradient(PyObject* self, PyObject* stop) {
  RuntimeValue& value = Core(self);
  OPSTEP_CHECK(PyBool_Check(stop), "stop_gradient is True or False, not ",
               std::string(py::repr(stop)), UserPlace());
  const bool stops = stop == Py_True;
  OPSTEP_CHECK(stops || IsFloat(value.tensor().dtype), "a value of dtype ",
               NameOf(value.tensor().dtype), " has no gradient: only floats have", UserPlace());
  value.stop_gradient = stops;
  return py::none();
}

py::object SetGradient(PyObject* self, PyObject* gradient) {
  OPSTEP_CHECK(gradient == Py_None || IsValue(gradient), "a gradient is a value or None");
  Core(self).gradient = gradient == Py_None ? nullptr : CoreOf(gradient);
  return py::none();
}

// Shares the array's memory where the layout allows; the value keeps the array alive.
py::object TakeArray(PyObject* self, PyObject* object) {
  auto array = py::cast<py::array>(object);
  // An op may be asked to write into the value.
  if (!array.writeable()) array = array.attr("copy")();
  std::vector<py::object> keep;
  Tensor tensor = BorrowArray(array, keep, "the value");
  tensor.owner = std::shared_ptr<void>(tensor.data, [kept = keep[0].release().ptr()](void*) {
    if (Finalizing()) return;
    const py::gil_scoped_acquire gil;
    Py_DECREF(kept);
  });
  ValuePtr& core = AsValue(self)->core;
  if (core) core->shown_as = nullptr;
  core = MakeValue(std::move(tensor));
  core->shown_as = self;
  return py::none();
}

template <typename F>
auto WithoutGilOnLine(F&& run) {
  try {
    const WithoutGil released;
    return run();
  } catch (const OpError&) {
    throw;
  } catch (const Error& error) {
    // An error of differentiation names its own line.
    const std::string what = error.what();
    throw Error(what.ends_with(")") ? what : what + UserPlace());
  }
}

// Gradients run without the GIL; only a new plan needs the lines.
AskedAt Here() {
  return {UserStackNumber(), [](Program& program, proto::OpDesc& op) {
            const py::gil_scoped_acquire gil;
            SetUserStack(program, op);
          }};
}

py::object Backward(PyObject* self, PyObject* retain) {
  const ValuePtr loss = CoreOf(self);
  const bool retained = retain == Py_True;
  const AskedAt at = Here();
  auto pairs = WithoutGilOnLine([&] { return RunBackward(loss, retained, at); });
  py::list out;
  for (auto& [leaf, gradient] : pairs)
    out.append(py::make_tuple(ToPython(std::move(leaf)), ToPython(std::move(gradient))));
  return out;
}

template <auto kFunction>
PyObject* Get(PyObject* self, void*) {
  return Guarded<kFunction>(self);
}

template <auto kFunction>
int Set(PyObject* self, PyObject* value, void*) {
  if (!value) {
    PyErr_SetString(PyExc_AttributeError, "it cannot be deleted");
    return -1;
  }
  PyObject* done = Guarded<kFunction>(self, value);
  Py_XDECREF(done);
  return done ? 0 : -1;
}

template <auto kFunction>
PyObject* Method(PyObject* self, PyObject* given) {
  return Guarded<kFunction>(self, given);
}

template <auto kFunction>
PyObject* PlainMethod(PyObject* self, PyObject*) {
  return Guarded<kFunction>(self);
}

template <Operator kWhich>
PyObject* Apply(PyObject* left, PyObject* right) {
  return RunOperator(kWhich, left, right);
}

PyObject* Power(PyObject* left, PyObject* right, PyObject*) {
  return RunOperator(Operator::kPow, left, right);
}

template <typename F>
void* Slot(F* function) {
  return reinterpret_cast<void*>(function);
}

PyTypeObject* MakeBaseType() {
  static std::array<PyGetSetDef, 8> attributes{{
      {"_name", Get<&Name>, Set<&SetName>, nullptr, nullptr},
      {"shape", Get<&Shape>, nullptr, nullptr, nullptr},
      {"dtype", Get<&DTypeName>, nullptr, nullptr, nullptr},
      {"stop_gradient", Get<&StopGradient>, Set<&SetStopGradient>,
       "Gradients do not flow through it. Set it before the value is used.", nullptr},
      {"_gradient", Get<&Gradient>, Set<&SetGradient>, nullptr, nullptr},
      {"is_leaf", Get<&IsLeaf>, nullptr, "No op made it.", nullptr},
      {},
  }};
  static std::array<PyMethodDef, 6> methods{{
      {"numpy", PlainMethod<&Array>, METH_NOARGS,
       "The value as an array over the same memory, read-only where a gradient may need it. "
       "backward() sees what is written into a writable array."},
      {"detach", PlainMethod<&Detach>, METH_NOARGS,
       "The same memory, through which no gradient flows."},
      {"_written", PlainMethod<&Written>, METH_NOARGS, nullptr},
      {"_take", Method<&TakeArray>, METH_O, nullptr},
      {"_backward", Method<&Backward>, METH_O, nullptr},
      {},
  }};
  static std::array<PyMemberDef, 2> members{{
      {"__weaklistoffset__", T_PYSSIZET, offsetof(ValueObject, weak_references), READONLY, nullptr},
      {},
  }};
  static std::array<PyType_Slot, 13> slots{{
      {Py_tp_new, Slot(&New)},
      {Py_tp_dealloc, Slot(&Free)},
      {Py_tp_getset, attributes.data()},
      {Py_tp_methods, methods.data()},
      {Py_tp_members, members.data()},
      {Py_nb_add, Slot(&Apply<Operator::kAdd>)},
      {Py_nb_subtract, Slot(&Apply<Operator::kSub>)},
      {Py_nb_multiply, Slot(&Apply<Operator::kMul>)},
      {Py_nb_true_divide, Slot(&Apply<Operator::kDiv>)},
      {Py_nb_matrix_multiply, Slot(&Apply<Operator::kMatmul>)},
      {Py_nb_power, Slot(&Power)},
      {},
  }};
  static PyType_Spec spec{"opstep._core.RuntimeValue", sizeof(ValueObject), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots.data()};
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) throw py::error_already_set();
  return reinterpret_cast<PyTypeObject*>(type);
}

std::vector<ValuePtr> Gradients(const ValuePtr& loss, const std::vector<ValuePtr>& wanted,
                                bool retain, bool record) {
  const AskedAt at = Here();
  return WithoutGilOnLine([&] { return RunGradients(loss, wanted, retain, record, at); });
}

}  // namespace

bool IsValue(PyObject* object) {
  return Py_TYPE(object) == value_type || PyObject_TypeCheck(object, base_type);
}

const ValuePtr& CoreOf(PyObject* value) {
  const ValuePtr& core = AsValue(value)->core;
  OPSTEP_CHECK(core, "the ", Py_TYPE(value)->tp_name,
               " has no value yet: its class must call super().__init__(array)");
  return core;
}

py::object ToPython(ValuePtr value) {
  // An object that is being freed does not show it any more.
  auto* shown = static_cast<PyObject*>(value->shown_as);
  if (shown && Py_REFCNT(shown) > 0) return py::reinterpret_borrow<py::object>(shown);
  PyObject* made = New(value_type, nullptr, nullptr);
  if (!made) throw py::error_already_set();
  value->shown_as = made;
  AsValue(made)->core = std::move(value);
  return py::reinterpret_steal<py::object>(made);
}

py::array NumpyScalar(py::handle number, DType dtype) {
  return py::module_::import("numpy").attr("asarray")(number, NumpyType(dtype)).cast<py::array>();
}

void BindValues(py::module_& m) {
  base_type = value_type = MakeBaseType();
  m.attr("RuntimeValue") = py::handle(reinterpret_cast<PyObject*>(base_type));
  m.def("gradients", &Gradients);
  // A run in the scope reads and writes the value's memory.
  m.def("share_value", [](Scope& scope, const std::string& name, const ValuePtr& value) {
    scope.Set(name, value->tensor());
  });
  m.def("set_value_type", [](const py::type& type) {
    value_type = reinterpret_cast<PyTypeObject*>(type.inc_ref().ptr());
  });
}

}  // namespace opstep::python
