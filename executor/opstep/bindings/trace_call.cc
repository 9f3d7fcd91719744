// One call of an op's function in imperative mode.
#include "opstep/bindings/trace_call.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <unordered_map>
#include <utility>

#include "debug/doorbell.h"
#include "ops/op.h"
#include "opstep/bindings/bindings.h"
#include "opstep/bindings/values.h"
#include "runtime/traced_program.h"

namespace opstep::python {
namespace {

constexpr size_t kCachedOps = 8192;
// Larger arrays among the attributes are not compared: such an op is compiled at every call.
constexpr py::ssize_t kLargestKey = 4096;

// Leaked, and used under the GIL only.
std::unordered_map<std::string, std::shared_ptr<const TracedOp>>& Cache() {
  static auto* cache = new std::unordered_map<std::string, std::shared_ptr<const TracedOp>>;
  return *cache;
}

// The op that this thread runs, and what it reads.
struct Running {
  const TracedOp* op;
  const std::vector<ValuePtr>& inputs;
  const Running* const before;
};
thread_local const Running* running = nullptr;
thread_local bool recording = true;
// opstep.debug.breakpoint() was called.
thread_local bool stop_next = false;

void Append(std::string& key, const void* bytes, size_t size) {
  key.append(static_cast<const char*>(bytes), size);
}

void AppendText(std::string& key, std::string_view text) {
  const size_t size = text.size();
  Append(key, &size, sizeof size);
  key += text;
}

void AppendText(std::string& key, PyObject* text) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text, &size);
  if (!bytes) throw py::error_already_set();
  AppendText(key, {bytes, static_cast<size_t>(size)});
}

// Bytes that tell an attribute's value; false when there are too many.
bool AppendAttr(std::string& key, PyObject* value) {
  if (PyBool_Check(value) || value == Py_None) {
    key += value == Py_True ? 'T' : value == Py_False ? 'F' : 'N';
  } else if (PyLong_Check(value)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow) return false;
    key += 'i';
    Append(key, &number, sizeof number);
  } else if (PyFloat_Check(value)) {
    const double number = PyFloat_AS_DOUBLE(value);
    key += 'f';
    Append(key, &number, sizeof number);
  } else if (PyUnicode_Check(value)) {
    key += 's';
    AppendText(key, value);
  } else if (PyList_Check(value) || PyTuple_Check(value)) {
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(value);
    key += '[';
    Append(key, &size, sizeof size);
    for (Py_ssize_t i = 0; i < size; ++i) {
      if (!AppendAttr(key, PySequence_Fast_GET_ITEM(value, i))) return false;
    }
  } else if (IsValue(value)) {
    return AppendAttr(key, py::handle(value).attr("numpy")().ptr());
  } else if (py::isinstance<py::array>(value)) {
    const auto array = py::reinterpret_borrow<py::array>(value);
    if (array.nbytes() > kLargestKey) return false;
    key += 'a';
    AppendText(key, py::str(static_cast<py::object>(array.dtype())).ptr());
    AppendText(key, py::repr(array.attr("shape")).ptr());
    key += std::string(array.attr("tobytes")().cast<py::bytes>());
  } else {
    key += 'r';
    AppendText(key, py::repr(value).ptr());
  }
  return true;
}

void AppendType(std::string& key, const Tensor& tensor) {
  key += static_cast<char>(tensor.dtype);
  key += static_cast<char>(tensor.dims.rank());
  Append(key, tensor.dims.begin(), sizeof(int64_t) * static_cast<size_t>(tensor.dims.rank()));
}

bool IsMany(PyObject* value) { return PyList_Check(value) || PyTuple_Check(value); }

template <typename Visit>
void ForEachItem(PyObject* value, Visit visit) {
  if (!IsMany(value)) return visit(value);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
    visit(PySequence_Fast_GET_ITEM(value, i));
}

std::string KindOf(py::handle value) {
  if (py::hasattr(value, "block") && py::hasattr(value, "name")) {
    return Cat("'", std::string(py::str(value.attr("name"))),
               "', a variable of a program, which has no value yet: programs are built outside of "
               "opstep.imperative.guard()");
  }
  if (py::hasattr(value, "dtype") && py::hasattr(value, "shape"))
    return "an array: make it a value with opstep.imperative.to_variable";
  if (value.is_none()) return "None";
  return Cat("a ", std::string(py::str(py::type::of(value).attr("__name__"))));
}

// One call of an op's function.
class Call {
 public:
  // Of `attrs` and `name`, null and "" stand for none.
  Call(const OpDef& def, PyObject* attrs, std::string name)
      : def_(def), attrs_(attrs), name_(std::move(name)) {}

  // What the slots are given; null for nothing.
  std::vector<py::object> Run(std::span<PyObject* const> inputs,
                              std::span<PyObject* const> outputs) {
    try {
      Take(inputs, outputs);
    } catch (const Error& error) {
      Fail("[", def_.schema.type, "] ", error.what(), UserPlace());
    }
    const std::shared_ptr<const TracedOp> op = Find();
    std::vector<ValuePtr> results = Run(op);
    std::vector<py::object> made = std::move(targets_);
    for (const uint32_t place : op->made) made[place] = ToPython(std::move(results[place]));
    return made;
  }

 private:
  void Take(std::span<PyObject* const> inputs, std::span<PyObject* const> outputs) {
    const OpDef* def = &def_;
    key_.reserve(256);
    inputs_.reserve(4);
    Append(key_, &def, sizeof def);
    AppendText(key_, name_);
    stop_ = std::exchange(stop_next, false);
    key_ += stop_ ? '!' : '.';
    given_ = inputs;
    for (size_t s = 0; s < inputs.size(); ++s) {
      const size_t before = inputs_.size();
      if (inputs[s] && inputs[s] != Py_None)
        ForEachItem(inputs[s], [&](PyObject* item) { Input(s, item); });
      in_counts_.push_back(static_cast<uint32_t>(inputs_.size() - before));
      Append(key_, &in_counts_.back(), sizeof in_counts_.back());
    }
    for (size_t s = 0; s < def_.schema.outputs.size(); ++s) {
      const size_t before = outputs_.size();
      if (s < outputs.size() && outputs[s]) {
        ForEachItem(outputs[s], [&](PyObject* item) { Output(item); });
      } else if (!def_.schema.outputs[s].optional) {
        const int64_t count = def_.schema.outputs[s].variadic ? CountOutputs(s) : 1;
        for (int64_t i = 0; i < count; ++i) Output(nullptr);
      }
      out_counts_.push_back(static_cast<uint32_t>(outputs_.size() - before));
      Append(key_, &out_counts_.back(), sizeof out_counts_.back());
    }
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t at = 0;
    key_ += static_cast<char>(attrs_ ? PyDict_GET_SIZE(attrs_) : 0);
    while (attrs_ && PyDict_Next(attrs_, &at, &key, &value)) {
      AppendText(key_, key);
      cached_ = AppendAttr(key_, value) && cached_;
    }
    AppendStackKey(key_);
  }

  // A number becomes a tensor of the dtype of the first value.
  DType Like() const {
    DType like = DType::kNone;
    for (PyObject* value : given_) {
      if (!value) continue;
      ForEachItem(value, [&](PyObject* item) {
        if (like == DType::kNone && IsValue(item)) like = CoreOf(item)->tensor().dtype;
      });
    }
    return like;
  }

  void Input(size_t slot, PyObject* item) {
    ValuePtr value;
    if (IsValue(item)) {
      value = CoreOf(item);
    } else {
      value = MakeValue(Number(def_.schema.inputs[slot].name, item));
    }
    AppendPlace(value);
    AppendType(key_, value->tensor());
    AppendText(key_, value->name);
    inputs_.push_back(std::move(value));
  }

  // Which of the inputs so far is the same value: those are one variable.
  void AppendPlace(const ValuePtr& value) {
    const auto same = std::find(inputs_.begin(), inputs_.end(), value);
    const auto place = static_cast<uint32_t>(same - inputs_.begin());
    Append(key_, &place, sizeof place);
  }

  Tensor Number(const std::string& slot, PyObject* item) const {
    const py::handle value(item);
    const bool scalar = PyBool_Check(item) || PyLong_Check(item) || PyFloat_Check(item) ||
                        (py::hasattr(value, "item") && py::hasattr(value, "ndim") &&
                         value.attr("ndim").cast<int>() == 0);
    const DType like = Like();
    if (!scalar || like == DType::kNone) Fail(slot, " must be a value, not ", KindOf(value));
    const double number = PyFloat_AsDouble(item);
    if (number == -1.0 && PyErr_Occurred()) throw py::error_already_set();
    OPSTEP_CHECK(IsFloat(like) || number == std::floor(number), slot, " is ", number,
                 ", which a value of dtype ", NameOf(like),
                 " cannot meet; cast it to float32 first");
    if (like != DType::kFloat32) return CopyArray(NumpyScalar(value, like), slot);
    Tensor tensor = Tensor::Allocate({like, {}});
    *tensor.as<float>() = static_cast<float>(number);
    return tensor;
  }

  void Output(PyObject* item) {
    if (!item || PyUnicode_Check(item)) {
      key_ += item ? 's' : 'o';
      if (item) AppendText(key_, item);
      targets_.push_back(py::reinterpret_borrow<py::object>(item));
      outputs_.push_back(nullptr);
      return;
    }
    if (!IsValue(item)) Fail("an output must be a value or a name, not ", KindOf(item));
    ValuePtr value = CoreOf(item);
    OPSTEP_CHECK(!recording || value->stop_gradient, "it cannot write into ",
                 value->name.empty() ? "a value" : Cat("'", value->name, "'"),
                 " whose gradient is wanted: do that inside opstep.imperative.no_grad()");
    key_ += 'v';
    AppendPlace(value);
    AppendType(key_, value->tensor());
    AppendText(key_, value->name);
    targets_.push_back(py::reinterpret_borrow<py::object>(item));
    outputs_.push_back(std::move(value));
  }

  int64_t CountOutputs(size_t slot) const {
    const std::string& what = def_.schema.outputs[slot].name;
    OPSTEP_CHECK(attrs_, "say how many ", what, " it gives");
    const py::handle attrs(attrs_);
    const py::object count = attrs.attr("get")("num_outputs", 0);
    if (PyLong_Check(count.ptr()) && count.cast<int64_t>() > 0) return count.cast<int64_t>();
    const py::object split = attrs.attr("get")("split", py::tuple());
    OPSTEP_CHECK(py::len(split) > 0, "say how many ", what, " it gives");
    return static_cast<int64_t>(py::len(split));
  }

  std::shared_ptr<const TracedOp> Find() {
    auto& cache = Cache();
    if (cached_) {
      if (const auto it = cache.find(key_); it != cache.end()) return it->second;
    }
    std::shared_ptr<const TracedOp> made = Make();
    if (cache.size() >= kCachedOps) cache.clear();
    if (cached_) cache.emplace(key_, made);
    return made;
  }

  std::shared_ptr<const TracedOp> Make() {
    const std::string& type = def_.schema.type;
    auto program = std::make_shared<Program>("imperative");
    NumberOps(*program);
    proto::OpDesc op;
    op.set_type(type);
    op.set_name(name_.empty() ? type : name_);
    op.set_stop(stop_);
    SetUserStack(*program, op);
    std::vector<std::string> names;
    std::vector<VarType> in_types, out_types;
    const auto fresh = [&](const std::string& wish) {
      std::string name = wish;
      for (int i = 1; std::find(names.begin(), names.end(), name) != names.end(); ++i)
        name = Cat(wish, "_", i);
      names.push_back(name);
      return name;
    };
    std::unordered_map<const RuntimeValue*, std::string> known;
    const auto name_of = [&](const ValuePtr& value, const std::string& wish) {
      const auto [it, added] = known.try_emplace(value.get());
      if (added) it->second = fresh(value->name.empty() ? wish : value->name);
      return it->second;
    };
    for (size_t s = 0, at = 0; s < in_counts_.size(); ++s) {
      if (in_counts_[s] == 0) continue;
      proto::Slot& slot = *op.add_inputs();
      slot.set_name(def_.schema.inputs[s].name);
      for (uint32_t i = 0; i < in_counts_[s]; ++i, ++at) {
        slot.add_vars(name_of(inputs_[at], slot.name()));
        in_types.push_back(inputs_[at]->tensor().type());
      }
    }
    for (size_t s = 0, at = 0; s < out_counts_.size(); ++s) {
      if (out_counts_[s] == 0) continue;
      proto::Slot& slot = *op.add_outputs();
      slot.set_name(def_.schema.outputs[s].name);
      for (uint32_t i = 0; i < out_counts_[s]; ++i, ++at) {
        const std::string wish = Cat(op.name(), ".", slot.name());
        const ValuePtr& value = outputs_[at];
        out_types.push_back(value == nullptr ? VarType{} : value->tensor().type());
        slot.add_vars(value != nullptr ? name_of(value, wish)
                      : targets_[at]   ? fresh(targets_[at].cast<std::string>())
                                       : fresh(wish));
      }
    }
    try {
      if (attrs_) AddAttrs(py::reinterpret_borrow<py::dict>(attrs_), def_.schema, op);
    } catch (const Error& error) {
      Fail(error.what(), UserPlace());
    }
    return MakeTracedOp(std::move(program), std::move(op), in_types, out_types);
  }

  // The op's id tells which call of the user's code it is.
  void NumberOps(Program& program) const {
    std::string key = Cat(def_.schema.type, "\n", name_, "\n");
    AppendStackKey(key);
    proto::ProgramDesc desc = program.desc();
    desc.set_next_op_id(NumberOfCall(key));
    program.Restore(desc);
  }

  std::vector<ValuePtr> Run(const std::shared_ptr<const TracedOp>& op) {
    const Running now{op.get(), inputs_, running};
    struct Back {
      ~Back() { running = running->before; }
    } back;
    running = &now;
    const WithoutGil released;
    DoorbellAfterFork();
    return RunTracedOp(op, inputs_, outputs_, recording);
  }

  const OpDef& def_;
  PyObject* const attrs_;
  const std::string name_;
  bool stop_ = false;
  std::span<PyObject* const> given_;
  std::vector<ValuePtr> inputs_, outputs_;
  std::vector<py::object> targets_;  // names, or Python's values to write into
  std::vector<uint32_t> in_counts_, out_counts_;
  std::string key_;
  bool cached_ = true;
};

}  // namespace

std::vector<py::object> TraceCall(const OpDef& def, std::span<PyObject* const> inputs,
                                  std::span<PyObject* const> outputs, PyObject* attrs,
                                  std::string name) {
  return Call(def, attrs, std::move(name)).Run(inputs, outputs);
}

bool SetRecording(bool on) { return std::exchange(recording, on); }

void StopNext() { stop_next = true; }

bool NameInTrace(PyObject* value, uint32_t& program, std::string& name) {
  if (!running || !IsValue(value)) return false;
  const ValuePtr core = CoreOf(value);
  size_t at = 0;
  for (const proto::Slot& slot : running->op->op().inputs()) {
    for (const std::string& variable : slot.vars()) {
      if (running->inputs[at++] != core) continue;
      program = TracedProgram();
      name = variable;
      return true;
    }
  }
  return false;
}

}  // namespace opstep::python
