// One call of an op's function in imperative mode.
#include "opstep/bindings/imperative/trace_call.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory_resource>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/latest_cache.h"
#include "debug/wire/doorbell.h"
#include "ops/op.h"
#include "opstep/bindings/bindings.h"
#include "opstep/bindings/frames/calls.h"
#include "opstep/bindings/imperative/trace_key.h"
#include "opstep/bindings/imperative/values.h"
#include "runtime/hook_state.h"
#include "runtime/traced_program.h"

namespace opstep::python {
namespace {

constexpr size_t kCachedOps = 8192;
// Of the memory that their runs use.
constexpr size_t kCachedBytes = size_t{256} << 20;

// Leaked, and used under the GIL only.
LatestCache<std::shared_ptr<const TracedOp>>& Cache() {
  static auto* cache = new LatestCache<std::shared_ptr<const TracedOp>>(kCachedOps, kCachedBytes);
  return *cache;
}

// The op that this thread runs, and its inputs.
struct Running {
  const TracedOp* op;
  const std::span<const ValuePtr> inputs;
  const Running* const before;
};
thread_local const Running* running = nullptr;

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
  Call(const OpDef& def, const Given& given) : def_(def), given_(given) {}

  py::object Run(bool gives_many) {
    try {
      Take();
    } catch (const Error& error) {
      Fail("[", def_.schema.type, "] ", error.what(), UserPlace());
    }
    const std::shared_ptr<const TracedOp> op = Find();
    const Mode& mode = ThisThread();
    Run(op, mode.recording);
    if (mode.loops) [[unlikely]]
      CheckLoops(*op);
    const auto result = [&](size_t i) {
      return targets_[i] && !PyUnicode_Check(targets_[i].ptr()) ? targets_[i]
                                                                : ToPython(std::move(outputs_[i]));
    };
    if (outputs_.size() == 1 && !gives_many) return result(0);
    if (outputs_.empty()) return py::none();
    py::tuple all(outputs_.size());
    for (size_t i = 0; i < outputs_.size(); ++i) all[i] = result(i);
    return all;
  }

 private:
  void Take() {
    key_.Add(&def_);
    key_.AddText(given_.scope);
    key_.AddText(given_.name);
    stop_ = std::exchange(ThisThread().stop_next, false);
    key_.Add(stop_);
    inputs_.reserve(given_.inputs.size());
    in_counts_.reserve(given_.inputs.size());
    for (size_t s = 0; s < given_.inputs.size(); ++s) {
      const size_t before = inputs_.size();
      PyObject* const input = given_.inputs[s];
      if (input && input != Py_None) ForEachItem(input, [&](PyObject* item) { Input(s, item); });
      in_counts_.push_back(static_cast<uint32_t>(inputs_.size() - before));
      key_.Add(in_counts_.back());
    }
    const std::vector<SlotSchema>& slots = def_.schema.outputs;
    outputs_.reserve(slots.size());
    targets_.reserve(slots.size());
    out_counts_.reserve(slots.size());
    for (size_t s = 0; s < slots.size(); ++s) {
      const size_t before = outputs_.size();
      if (s < given_.outputs.size() && given_.outputs[s]) {
        ForEachItem(given_.outputs[s], [&](PyObject* item) { Output(item); });
      } else if (!slots[s].optional) {
        const int64_t count = slots[s].variadic ? CountOutputs(s) : 1;
        for (int64_t i = 0; i < count; ++i) Output(nullptr);
      }
      out_counts_.push_back(static_cast<uint32_t>(outputs_.size() - before));
      key_.Add(out_counts_.back());
    }
    key_.Add(given_.attrs.size());
    for (const auto& [name, value] : given_.attrs) {
      key_.AddText(name);
      cached_ = key_.AddAttr(value) && cached_;
    }
    key_.Add(UserStackNumber());
  }

  // A number becomes a tensor of the dtype of the first value.
  DType Like() const {
    DType like = DType::kNone;
    for (PyObject* value : given_.inputs) {
      if (!value) continue;
      ForEachItem(value, [&](PyObject* item) {
        if (like == DType::kNone && IsValue(item)) like = CoreOf(item)->tensor().dtype;
      });
    }
    return like;
  }

  void Input(size_t slot, PyObject* item) {
    ValuePtr value =
        IsValue(item) ? CoreOf(item) : MakeValue(Number(def_.schema.inputs[slot].name, item));
    AddValue(*value);
    inputs_.push_back(std::move(value));
  }

  void AddValue(const RuntimeValue& value) {
    // The earlier input that is the same value: both are one variable.
    const auto same = std::find_if(inputs_.begin(), inputs_.end(),
                                   [&](const ValuePtr& other) { return other.get() == &value; });
    key_.Add(static_cast<uint32_t>(same - inputs_.begin()));
    key_.AddType(value.tensor());
    key_.AddText(value.name);
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
    targets_.push_back(py::reinterpret_borrow<py::object>(item));
    if (!item || PyUnicode_Check(item)) {
      key_.Add(item ? 's' : 'o');
      if (item) key_.AddText(item);
      outputs_.push_back(nullptr);
      return;
    }
    if (!IsValue(item)) Fail("an output must be a value or a name, not ", KindOf(item));
    const ValuePtr& value = CoreOf(item);
    OPSTEP_CHECK(!ThisThread().recording || value->stop_gradient, "it cannot write into ",
                 value->name.empty() ? "a value" : Cat("'", value->name, "'"),
                 " whose gradient is wanted: do that inside opstep.imperative.no_grad()");
    key_.Add('v');
    AddValue(*value);
    outputs_.push_back(value);
  }

  py::dict Attrs() const {
    py::dict attrs;
    for (const auto& [name, value] : given_.attrs) attrs[py::handle(name)] = py::handle(value);
    return attrs;
  }

  int64_t CountOutputs(size_t slot) const {
    const py::dict attrs = Attrs();
    const py::object count = attrs.attr("get")("num_outputs", 0);
    if (PyLong_Check(count.ptr()) && count.cast<int64_t>() > 0) return count.cast<int64_t>();
    const py::object split = attrs.attr("get")("split", py::tuple());
    OPSTEP_CHECK(py::len(split) > 0, "say how many ", def_.schema.outputs[slot].name, " it gives");
    return static_cast<int64_t>(py::len(split));
  }

  std::shared_ptr<const TracedOp> Find() {
    if (!cached_) return Make();
    std::shared_ptr<const TracedOp> found = Cache().Find(key_.view());
    if (found) return found;
    found = Make();
    Cache().Put(key_.view(), found, found->bytes);
    return found;
  }

  std::shared_ptr<const TracedOp> Make() {
    const std::string& type = def_.schema.type;
    auto program = std::make_shared<Program>("imperative");
    NumberCall(*program, Cat(type, "\n", given_.scope, given_.name, "\n", UserStackNumber()));
    proto::OpDesc op;
    op.set_type(type);
    op.set_name(Cat(given_.scope, given_.name.empty() ? type : given_.name));
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
                      : targets_[at]   ? fresh(py::cast<std::string>(targets_[at]))
                                       : fresh(wish));
      }
    }
    try {
      AddAttrs(Attrs(), def_.schema, op);
    } catch (const Error& error) {
      Fail(error.what(), UserPlace());
    }
    return MakeTracedOp(std::move(program), std::move(op), in_types, out_types);
  }

  void Run(const std::shared_ptr<const TracedOp>& op, bool record) {
    const Running now{op.get(), inputs_, running};
    struct Back {
      ~Back() { running = running->before; }
    } back;
    running = &now;
    std::optional<RunCalls> calls;
    if (hook_there.load(std::memory_order_relaxed)) calls.emplace();
    DoorbellAfterFork();
    if (op->brief && !hook_there.load(std::memory_order_relaxed)) {
      // Releasing the GIL would take longer than the op. Nothing may wait here.
      struct Unwatched {
        const bool before = std::exchange(unwatched_runs, true);
        ~Unwatched() { unwatched_runs = before; }
      } unwatched;
      RunTracedOp(op, inputs_, outputs_, record);
      return;
    }
    const WithoutGil released;
    RunTracedOp(op, inputs_, outputs_, record);
  }

  // A loop that does not end must not take all memory for its gradient.
  [[gnu::cold, gnu::noinline]] void CheckLoops(const TracedOp& op) const {
    if (CountKept(op, outputs_)) return;
    const py::object loop = py::module_::import("opstep.convert.running_loops").attr("loop_here")();
    if (loop.is_none()) return;
    try {
      StackMemory::Refuse(Cat(" in the loop at ", loop.cast<std::string>()));
    } catch (const Error& error) {
      Fail("[", def_.schema.type, "] ", error.what(), UserPlace());
    }
  }

  const OpDef& def_;
  const Given& given_;
  bool stop_ = false;
  bool cached_ = true;
  // A typical call needs no heap memory below.
  std::array<std::byte, 2048> stack_;
  std::pmr::monotonic_buffer_resource memory_{stack_.data(), stack_.size()};
  TraceKey key_{&memory_};
  std::pmr::vector<ValuePtr> inputs_{&memory_}, outputs_{&memory_};
  std::pmr::vector<py::object> targets_{&memory_};  // names, or values to write into, or null
  std::pmr::vector<uint32_t> in_counts_{&memory_}, out_counts_{&memory_};
};

}  // namespace

py::object TraceCall(const OpDef& def, const Given& given, bool gives_many) {
  return Call(def, given).Run(gives_many);
}

Mode& ThisThread() {
  thread_local Mode mode;
  return mode;
}

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
