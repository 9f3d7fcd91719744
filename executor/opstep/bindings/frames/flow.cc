// Reads Python's bytecode: its control flow, and the names that its loops assign.
#include "opstep/bindings/frames/flow.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "opstep/bindings/frames/frame_locals.h"
#include "opstep/bindings/frames/frame_names.h"

namespace opstep::python {
namespace {

enum class Kind : uint8_t {
  kOther,
  kCache,
  kWiden,  // EXTENDED_ARG
  kJump,   // forward, if anything else may follow
  kJumpBack,
  kAbsolute,  // to a place, before Python 3.11
  kForIter,
  kStoreFast,
  kStoreTwo,  // a local, and another one is stored or loaded
  kStoreName,
};

struct Opcode {
  Kind kind = Kind::kOther;
  bool ends = false;  // the next instruction does not follow
};

const std::array<Opcode, 256>& Opcodes() {
  static const auto* opcodes = [] {
    auto* table = new std::array<Opcode, 256>{};
    const py::module_ module = py::module_::import("opcode");
    const auto contains = [&](const char* list, py::handle number) {
      return py::hasattr(module, list) &&
             py::cast<bool>(module.attr(list).attr("__contains__")(number));
    };
    for (const auto& [key, number] : module.attr("opmap").cast<py::dict>()) {
      const auto at = number.cast<size_t>();
      if (at >= table->size()) continue;  // Only the compiler uses it.
      const auto name = key.cast<std::string>();
      Opcode& opcode = (*table)[at];
      if (name == "CACHE") opcode.kind = Kind::kCache;
      if (name == "EXTENDED_ARG") opcode.kind = Kind::kWiden;
      if (name == "STORE_FAST" || name == "DELETE_FAST" || name == "LOAD_FAST_AND_CLEAR")
        opcode.kind = Kind::kStoreFast;
      if (name == "STORE_FAST_STORE_FAST" || name == "STORE_FAST_LOAD_FAST")
        opcode.kind = Kind::kStoreTwo;
      if (name == "STORE_NAME" || name == "STORE_GLOBAL") opcode.kind = Kind::kStoreName;
      // Exception handlers are not reached from here.
      if (contains("hasjrel", number) && !name.starts_with("SETUP_")) {
        const bool back = name.find("BACKWARD") != std::string::npos;
        opcode.kind = name == "FOR_ITER" ? Kind::kForIter : back ? Kind::kJumpBack : Kind::kJump;
      }
      if (contains("hasjabs", number)) opcode.kind = Kind::kAbsolute;
      for (const std::string_view end :
           {"JUMP_FORWARD", "JUMP_ABSOLUTE", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT",
            "RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"})
        opcode.ends = opcode.ends || name == end;
    }
    return table;
  }();
  return *opcodes;
}

struct Instruction {
  Opcode opcode;
  uint32_t at = 0;
  uint32_t argument = 0;
  uint32_t next = 0;    // behind its caches
  uint32_t target = 0;  // of a jump
};

std::vector<Instruction> Read(const std::string& bytes) {
  std::vector<Instruction> all;
  uint32_t argument = 0;
  for (size_t at = 0; at + 1 < bytes.size(); at += 2) {
    const Opcode opcode = Opcodes()[static_cast<uint8_t>(bytes[at])];
    if (opcode.kind == Kind::kCache) {
      if (!all.empty()) all.back().next += 2;
      continue;
    }
    argument = argument << 8 | static_cast<uint8_t>(bytes[at + 1]);
    all.push_back({opcode, static_cast<uint32_t>(at), argument, static_cast<uint32_t>(at + 2), 0});
    if (opcode.kind != Kind::kWiden) argument = 0;
  }
  for (Instruction& each : all) {
    const Kind kind = each.opcode.kind;
    if (kind == Kind::kJump || kind == Kind::kForIter) each.target = each.next + 2 * each.argument;
    if (kind == Kind::kJumpBack) each.target = each.next - 2 * each.argument;
    if (kind == Kind::kAbsolute) each.target = 2 * each.argument;
  }
  return all;
}

// A name's value as a number: equal for the same value, and mostly different for others.
uint64_t Told(PyObject* value) {
  if (!value) return 0;
  if (PyLong_CheckExact(value) || PyUnicode_CheckExact(value) || PyFloat_CheckExact(value))
    return static_cast<uint64_t>(PyObject_Hash(value)) * 2 + 1;
  // Another object may later have its address and the variable's name.
  if (FrameNames::IsVariable(value)) {
    PyObject* const name = FrameNames::PartsOf(value).name;
    return name ? static_cast<uint64_t>(PyObject_Hash(name)) * 2 + 1 : 0;
  }
  return reinterpret_cast<uintptr_t>(value);
}

}  // namespace

// Where the code can go, and the names that its loops assign.
class Flow {
 public:
  explicit Flow(const Code& code) : code_(code) {
    instructions_ = Read(py::bytes(code.keep.attr("co_code")));
    for (const Instruction& each : instructions_) {
      const Kind kind = each.opcode.kind;
      if ((kind == Kind::kJumpBack || kind == Kind::kAbsolute) && each.target <= each.at)
        loops_.push_back({each.target, each.at});
    }
    const auto* raw = reinterpret_cast<PyCodeObject*>(code.keep.ptr());
    const bool function = (raw->co_flags & CO_OPTIMIZED) != 0;
    bool begins = false;  // an iteration
    for (const Instruction& each : instructions_) {
      const Kind kind = each.opcode.kind;
      if (kind == Kind::kStoreFast) Add(each.argument, each.at);
      if (kind == Kind::kStoreTwo) {
        Add(each.argument >> 4, each.at);
        Add(each.argument & 15, each.at);
      }
      // Any code may set names of modules: only those assigned by loops count.
      if (kind == Kind::kStoreName && !function && begins) Add(each.argument, each.at);
      begins = kind == Kind::kForIter || (begins && kind == Kind::kWiden);
    }
    function_ = function;
  }

  bool InLoop(uint32_t place) const {
    return std::any_of(loops_.begin(), loops_.end(),
                       [&](const Loop& loop) { return loop.from <= place && place <= loop.to; });
  }

  // Can it get from one place to a later one without going back? A calling frame may be at a cache
  // of its instruction.
  bool Reaches(uint32_t from, uint32_t to) const {
    std::vector<bool> reached(instructions_.size() + 1);
    for (size_t i = 0; i < instructions_.size(); ++i) {
      const Instruction& each = instructions_[i];
      if (each.at <= from && from < each.next) reached[i] = true;
      if (to < each.next) return reached[i];
      if (!reached[i]) continue;
      if (!each.opcode.ends) reached[i + 1] = true;
      if (each.target > each.at) reached[IndexOf(each.target)] = true;
    }
    return false;
  }

  LoopState StateAt(PyFrameObject* frame, uint32_t place) const {
    LoopState state;
    if (!InLoop(place)) return state;
    const FrameLocals locals(frame);
    py::object names;
    if (!function_) names = py::handle(reinterpret_cast<PyObject*>(frame)).attr("f_globals");
    for (const Name& name : names_) {
      PyObject* value = nullptr;
      if (function_ && name.index < locals.size()) {
        value = locals.value(name.index);
      } else if (!function_ && PyDict_Check(names.ptr())) {
        value = PyDict_GetItemWithError(names.ptr(), NameAt(name.index));
        if (!value) PyErr_Clear();
      }
      state.push_back(Told(value));
    }
    return state;
  }

  // Has a name changed that is not assigned between the places?
  bool HasChanged(const LoopState& then, const LoopState& now, uint32_t from, uint32_t to) const {
    if (then.size() != names_.size() || now.size() != names_.size()) return false;
    for (size_t i = 0; i < names_.size(); ++i) {
      const std::vector<uint32_t>& stores = names_[i].stores;
      const bool between = std::any_of(stores.begin(), stores.end(),
                                       [&](uint32_t at) { return from < at && at < to; });
      if (!between && then[i] != now[i]) return true;
    }
    return false;
  }

 private:
  struct Loop {
    uint32_t from, to;
  };
  // A local variable's number, or a name's.
  struct Name {
    uint32_t index;
    std::vector<uint32_t> stores;
  };

  void Add(uint32_t index, uint32_t at) {
    const bool in_loop = InLoop(at);
    auto name = std::find_if(names_.begin(), names_.end(),
                             [&](const Name& each) { return each.index == index; });
    if (name == names_.end()) {
      if (!in_loop) return;
      name = names_.insert(name, Name{index, {}});
    }
    name->stores.push_back(at);
  }
  size_t IndexOf(uint32_t at) const {
    const auto found =
        std::lower_bound(instructions_.begin(), instructions_.end(), at,
                         [](const Instruction& each, uint32_t where) { return each.at < where; });
    return static_cast<size_t>(found - instructions_.begin());
  }
  PyObject* NameAt(uint32_t index) const {
    const auto* raw = reinterpret_cast<PyCodeObject*>(code_.keep.ptr());
    return PyTuple_GET_ITEM(raw->co_names, static_cast<Py_ssize_t>(index));
  }

  const Code& code_;
  std::vector<Instruction> instructions_;
  std::vector<Loop> loops_;
  std::vector<Name> names_;
  bool function_ = false;
};

namespace {

const Flow& FlowOf(const Code& code) {
  if (!code.flow) code.flow = std::make_shared<const Flow>(code);
  return *code.flow;
}

}  // namespace

LoopState LoopStateAt(const Code& code, PyFrameObject* frame, uint32_t place) {
  return FlowOf(code).StateAt(frame, place);
}

bool HasGoneBack(const Code& code, PyFrameObject* frame, uint32_t from, uint32_t to,
                 const LoopState& then) {
  const Flow& flow = FlowOf(code);
  if (!flow.Reaches(from, to)) return true;
  return flow.InLoop(from) && flow.HasChanged(then, flow.StateAt(frame, from), from, to);
}

}  // namespace opstep::python
