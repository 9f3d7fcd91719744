// Imperative mode: an op's function, called with values, runs the op at once.
#include "opstep/bindings/trace_call.h"

namespace opstep::python {
namespace {

// What opstep.context knows of this thread. Leaked, as all Python objects here.
py::object& Context() {
  static auto* context = new py::object;
  return *context;
}

py::object FromContext(PyObject* name) {
  PyObject* value = PyObject_GetAttr(Context().ptr(), name);
  if (!value) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(value);
}

// An op type, as its function calls it.
class OpTracer {
 public:
  explicit OpTracer(const std::string& type) : def_(GetOp(type)) {
    for (const SlotSchema& slot : def_.schema.inputs) Add(slot, in_names_);
    for (const SlotSchema& slot : def_.schema.outputs) {
      Add(slot, out_names_);
      many_ = many_ || slot.variadic;
    }
    for (const AttrSchema& attr : def_.schema.attrs)
      refused_ = refused_ || attr.type == AttrType::kBlock || attr.type == AttrType::kBlocks;
    refused_ = refused_ || def_.role == OpRole::kFeed;
  }

  const OpDef& def() const { return def_; }

  // By name.
  py::object operator()(const py::dict& inputs, const py::dict& outputs, const py::dict& attrs,
                        std::string name) const {
    const auto each = [](const std::vector<py::object>& names, const py::dict& dict) {
      std::vector<PyObject*> values;
      for (const py::object& key : names)
        values.push_back(PyDict_GetItemWithError(dict.ptr(), key.ptr()));
      return values;
    };
    return Run(each(in_names_, inputs), each(out_names_, outputs), attrs.ptr(), std::move(name));
  }

  // Inputs only, by their order.
  py::object RunInputs(std::span<PyObject* const> inputs) const {
    static PyObject* const kNames = PyUnicode_InternFromString("names");
    const py::object names = FromContext(kNames);
    std::string name;
    if (PyUnicode_GetLength(names.ptr()) != 0) name = names.cast<std::string>() + def_.schema.type;
    return Run(inputs, {}, nullptr, std::move(name));
  }

 private:
  py::object Run(std::span<PyObject* const> inputs, std::span<PyObject* const> outputs,
                 PyObject* attrs, std::string name) const {
    if (refused_) {
      Fail("[", def_.schema.type, "] is an op of programs only: ",
           def_.role == OpRole::kFeed ? "values are made with opstep.imperative.to_variable"
                                      : "in imperative mode Python's own code does that",
           UserPlace());
    }
    std::vector<py::object> made = TraceCall(def_, inputs, outputs, attrs, std::move(name));
    if (made.size() == 1 && !many_) return std::move(made[0]);
    if (made.empty()) return py::none();
    py::tuple all(made.size());
    for (size_t i = 0; i < made.size(); ++i) all[i] = std::move(made[i]);
    return all;
  }

  void Add(const SlotSchema& slot, std::vector<py::object>& names) {
    PyObject* name = PyUnicode_InternFromString(slot.name.c_str());
    if (!name) throw py::error_already_set();
    names.push_back(py::reinterpret_steal<py::object>(name));
    refused_ = refused_ || slot.kind != proto::TENSOR || slot.captures || !slot.of_block.empty();
  }

  const OpDef& def_;
  std::vector<py::object> in_names_, out_names_;
  bool many_ = false;
  bool refused_ = false;
};

// A method of two values, such as Value.__add__, that runs the op without a detour over Python.
template <bool kReversed>
PyObject* CallOperator(PyObject* capsule, PyObject* const* args, Py_ssize_t count) {
  const auto& op = *static_cast<const OpTracer*>(PyCapsule_GetPointer(capsule, nullptr));
  try {
    OPSTEP_CHECK(count == 2, "an operator takes two values");
    static PyObject* const kImperative = PyUnicode_InternFromString("imperative");
    OPSTEP_CHECK(FromContext(kImperative).ptr() == Py_True, "[", op.def().schema.type,
                 "] takes runtime values inside opstep.imperative.guard() only", UserPlace());
    PyObject* const inputs[] = {args[kReversed ? 1 : 0], args[kReversed ? 0 : 1]};
    return op.RunInputs(inputs).release().ptr();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (...) {
    py::detail::try_translate_exceptions();
  }
  return nullptr;
}

// How it is called is said by METH_FASTCALL.
PyCFunction AsCFunction(_PyCFunctionFast function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function));
}

py::object OperatorMethod(py::object tracer, bool reversed) {
  static PyMethodDef plain{"operator", AsCFunction(&CallOperator<false>), METH_FASTCALL, nullptr};
  static PyMethodDef turned{"operator", AsCFunction(&CallOperator<true>), METH_FASTCALL, nullptr};
  // Leaked: operators are there for as long as the process is.
  const py::capsule self(&tracer.release().cast<const OpTracer&>(),
                         static_cast<void (*)(void*)>(nullptr));
  const py::object function =
      py::reinterpret_steal<py::object>(PyCFunction_New(reversed ? &turned : &plain, self.ptr()));
  return py::reinterpret_steal<py::object>(PyInstanceMethod_New(function.ptr()));
}

}  // namespace

void BindTracing(py::module_& m) {
  py::class_<OpTracer>(m, "OpTracer")
      .def(py::init<const std::string&>())
      .def("__call__", &OpTracer::operator())
      .def("run_inputs",
           [](const OpTracer& op, const py::tuple& inputs) {
             const auto size = static_cast<size_t>(PyTuple_GET_SIZE(inputs.ptr()));
             std::vector<PyObject*> all(op.def().schema.inputs.size());
             OPSTEP_CHECK(size <= all.size(), "too many inputs");
             for (size_t i = 0; i < size; ++i)
               all[i] = PyTuple_GET_ITEM(inputs.ptr(), static_cast<Py_ssize_t>(i));
             return op.RunInputs(all);
           })
      .def("operator_method", &OperatorMethod);
  m.def("set_recording", &SetRecording);
  m.def("stop_next", &StopNext);
  m.def("set_context", [](py::object context) { Context() = std::move(context); });
}

}  // namespace opstep::python
