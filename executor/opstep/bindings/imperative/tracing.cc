// Imperative mode: an op's function, called with values, runs the op at once.
#include <array>

#include "opstep/bindings/imperative/trace_call.h"
#include "opstep/bindings/imperative/values.h"

namespace opstep::python {
namespace {

// An op type, as called by its function.
class OpTracer {
 public:
  explicit OpTracer(const std::string& type) : def_(GetOp(type)) {
    const OpSchema& schema = def_.schema;
    bool named = false;
    for (const AttrSchema& attr : schema.attrs) {
      Add(Argument::kAttr, attr.name, 0);
      named = named || attr.name == "name";
      refused_ = refused_ || attr.type == AttrType::kBlock || attr.type == AttrType::kBlocks;
    }
    Add(Argument::kName, named ? "op_name" : "name", 0);
    for (size_t s = 0; s < schema.outputs.size(); ++s) Add(Argument::kOutput, schema.outputs[s], s);
    for (size_t s = 0; s < schema.inputs.size(); ++s) Add(Argument::kInput, schema.inputs[s], s);
    for (const SlotSchema& slot : schema.outputs) many_ = many_ || slot.variadic;
    refused_ = refused_ || def_.role == OpRole::kFeed;
  }

  const OpDef& def() const { return def_; }

  // By name.
  py::object Run(const py::dict& inputs, const py::dict& outputs, const py::dict& attrs,
                 std::string_view name) const {
    std::vector<PyObject*> in(def_.schema.inputs.size()), out(def_.schema.outputs.size());
    for (const Argument& argument : arguments_) {
      if (argument.kind == Argument::kInput)
        in[argument.slot] = PyDict_GetItemWithError(inputs.ptr(), argument.name);
      if (argument.kind == Argument::kOutput)
        out[argument.slot] = PyDict_GetItemWithError(outputs.ptr(), argument.name);
    }
    std::vector<std::pair<PyObject*, PyObject*>> given;
    for (const auto& [key, value] : attrs) given.emplace_back(key.ptr(), value.ptr());
    return Run({in, out, given, "", name});
  }

  // By position and keywords, as a function is called; null for a call that is not a plain one.
  py::object Run(PyObject* args, PyObject* keywords) const {
    constexpr size_t kMost = 32;
    const auto count = static_cast<size_t>(PyTuple_GET_SIZE(args));
    const size_t n_in = def_.schema.inputs.size(), n_out = def_.schema.outputs.size();
    if (count > n_in || n_in + n_out > kMost) return {};
    std::array<PyObject*, kMost> slots{};
    for (size_t i = 0; i < count; ++i)
      slots[i] = PyTuple_GET_ITEM(args, static_cast<Py_ssize_t>(i));
    std::array<std::pair<PyObject*, PyObject*>, kMost> attrs;
    size_t n_attrs = 0;
    std::string_view name;
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t at = 0;
    while (keywords && PyDict_Next(keywords, &at, &key, &value)) {
      const Argument* argument = Find(key);
      if (!argument) return {};
      if (value == Py_None) continue;
      if (argument->kind == Argument::kAttr) {
        if (n_attrs == kMost) return {};
        attrs[n_attrs++] = {key, value};
      } else if (argument->kind == Argument::kName) {
        Py_ssize_t size = 0;
        const char* text = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, &size) : nullptr;
        if (!text) return {};
        name = {text, static_cast<size_t>(size)};
      } else {
        PyObject*& slot = slots[argument->slot + (argument->kind == Argument::kOutput ? n_in : 0)];
        if (slot) return {};
        slot = value;
      }
    }
    const std::string_view scope = name.empty() ? std::string_view(ThisThread().names) : "";
    return Run(
        {{slots.data(), n_in}, {slots.data() + n_in, n_out}, {attrs.data(), n_attrs}, scope, name});
  }

  py::object Run(const Given& given) const {
    if (refused_) {
      Fail("[", def_.schema.type, "] is an op of programs only: ",
           def_.role == OpRole::kFeed ? "values are made with opstep.imperative.to_variable"
                                      : "in imperative mode Python's own code does that",
           UserPlace());
    }
    return TraceCall(def_, given, many_);
  }

 private:
  // The slot or attribute of a keyword.
  struct Argument {
    enum Kind { kAttr, kName, kInput, kOutput } kind;
    PyObject* name;  // interned, and leaked
    size_t slot;
  };

  const Argument* Find(PyObject* key) const {
    // Names in code are interned.
    for (const Argument& argument : arguments_) {
      if (argument.name == key) return &argument;
    }
    return nullptr;
  }

  void Add(Argument::Kind kind, const std::string& name, size_t slot) {
    PyObject* interned = PyUnicode_InternFromString(name.c_str());
    if (!interned) throw py::error_already_set();
    arguments_.push_back({kind, interned, slot});
  }
  void Add(Argument::Kind kind, const SlotSchema& schema, size_t slot) {
    Add(kind, schema.name, slot);
    refused_ =
        refused_ || schema.kind != proto::TENSOR || schema.captures || !schema.of_block.empty();
  }

  const OpDef& def_;
  std::vector<Argument> arguments_;
  bool many_ = false;
  bool refused_ = false;
};

// Calls a C++ function for Python and passes its errors on.
template <typename Function>
PyObject* Guarded(Function function) {
  try {
    return py::object(function()).release().ptr();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (...) {
    py::detail::try_translate_exceptions();
  }
  return nullptr;
}

// --- an op's function: base class of opstep.ops.OpFunction

struct FunctionObject {
  PyObject_HEAD const OpTracer* tracer;  // from the attribute `_tracer`, which the object keeps
};

PyObject* Interned(const char* text) { return PyUnicode_InternFromString(text); }

PyObject* CallFunction(PyObject* self, PyObject* args, PyObject* keywords) {
  static PyObject* const kTracer = Interned("_tracer");
  static PyObject* const kCall = Interned("_call");
  return Guarded([&]() -> py::object {
    if (ThisThread().imperative) {
      const OpTracer*& tracer = reinterpret_cast<FunctionObject*>(self)->tracer;
      if (!tracer) tracer = &py::handle(self).attr(py::handle(kTracer)).cast<const OpTracer&>();
      if (py::object result = tracer->Run(args, keywords)) return result;
    }
    // An op of a program, or the error of a wrong call.
    const py::object call = py::handle(self).attr(py::handle(kCall));
    PyObject* result = PyObject_Call(call.ptr(), args, keywords);
    if (!result) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(result);
  });
}

void FreeObject(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// --- the thread's state in opstep.context

template <typename F>
void* Slot(F* function) {
  return reinterpret_cast<void*>(function);
}

PyObject* GetImperative(PyObject*, void*) { return PyBool_FromLong(ThisThread().imperative); }

int SetImperative(PyObject*, PyObject* value, void*) {
  const int on = value ? PyObject_IsTrue(value) : 0;
  if (on >= 0) ThisThread().imperative = on != 0;
  return on < 0 ? -1 : 0;
}

PyObject* GetNames(PyObject*, void*) {
  const std::string& names = ThisThread().names;
  return PyUnicode_FromStringAndSize(names.data(), static_cast<Py_ssize_t>(names.size()));
}

int SetNames(PyObject*, PyObject* value, void*) {
  Py_ssize_t size = 0;
  const char* text = value ? PyUnicode_AsUTF8AndSize(value, &size) : "";
  if (text) ThisThread().names.assign(text, static_cast<size_t>(size));
  return text ? 0 : -1;
}

py::object MakeType(const char* name, size_t size, PyType_Slot* slots) {
  PyType_Spec spec{name, static_cast<int>(size), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                   slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(type);
}

py::object MakeFunctionType() {
  static std::array<PyType_Slot, 3> slots{{
      {Py_tp_call, Slot(&CallFunction)},
      {Py_tp_dealloc, Slot(&FreeObject)},
      {},
  }};
  return MakeType("opstep._core.OpFunction", sizeof(FunctionObject), slots.data());
}

py::object MakeModeType() {
  static std::array<PyGetSetDef, 3> attributes{{
      {"imperative", GetImperative, SetImperative, nullptr, nullptr},
      {"names", GetNames, SetNames, nullptr, nullptr},
      {},
  }};
  static std::array<PyType_Slot, 3> slots{{
      {Py_tp_getset, attributes.data()},
      {Py_tp_dealloc, Slot(&FreeObject)},
      {},
  }};
  return MakeType("opstep._core.Mode", sizeof(PyObject), slots.data());
}

// By Operator.
std::array<const OpTracer*, kOperators> operators{};

}  // namespace

PyObject* RunOperator(Operator which, PyObject* left, PyObject* right) {
  return Guarded([&] {
    const OpTracer& op = *operators[static_cast<size_t>(which)];
    OPSTEP_CHECK(ThisThread().imperative, "[", op.def().schema.type,
                 "] takes runtime values inside opstep.imperative.guard() only", UserPlace());
    PyObject* const inputs[] = {left, right};
    return op.Run({inputs, {}, {}, ThisThread().names, ""});
  });
}

void BindTracing(py::module_& m) {
  py::class_<OpTracer>(m, "OpTracer")
      .def(py::init<const std::string&>())
      .def("__call__",
           py::overload_cast<const py::dict&, const py::dict&, const py::dict&, std::string_view>(
               &OpTracer::Run, py::const_));
  m.attr("OpFunction") = MakeFunctionType();
  m.attr("Mode") = MakeModeType();
  m.def("set_recording", [](bool on) { return std::exchange(ThisThread().recording, on); });
  m.def("count_loops", [](bool on) { return std::exchange(ThisThread().loops, on); });
  m.def("stop_next", [] { ThisThread().stop_next = true; });
  // The tracers of add, sub, mul, div, pow and matmul, which are never freed.
  m.def("set_operators", [](const py::list& tracers) {
    OPSTEP_CHECK(tracers.size() == kOperators, "there are ", kOperators, " operators");
    for (size_t i = 0; i < kOperators; ++i)
      operators[i] = &py::object(tracers[i]).release().cast<const OpTracer&>();
  });
}

}  // namespace opstep::python
