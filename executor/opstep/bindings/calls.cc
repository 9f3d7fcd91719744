// Python tells of a frame where it is, but not which of several calls of a function it belongs to:
// a frame that has ended and the one after it may have the same address. So each frame that made an
// op is marked, by an object in its `f_trace` that goes away with it. Only trace functions use that
// attribute; a frame that has one is known by its address.
#include "opstep/bindings/calls.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "debug/agent.h"
#include "opstep/bindings/frame_names.h"

namespace opstep::python {
namespace {

// Of names that one look at a frame goes through.
constexpr size_t kMostNames = 2000;
// A frame that builds many programs remembers what the last ones were told.
constexpr size_t kMostPrograms = 8;

// A name that holds a variable, as hashes, to see quickly whether something has changed.
struct Seen {
  uint64_t name = 0;
  uint64_t variable = 0;
  uint32_t program = 0;
  bool operator==(const Seen&) const = default;
};

// By name: the variable's name; empty for something else that a variable's name holds.
using Names = std::map<std::string, std::string>;

// What a program was told of a call.
struct Told {
  uint32_t program = 0;
  uint32_t call = 0;
  uint64_t visit = 0;
  uint32_t visit_number = 0;
  uint64_t look = 0;
  Names names;
  uint32_t restored = 0;  // see Program
};

// One call of a function, for as long as its frame lives.
struct Call {
  uint64_t serial = 0;
  // Where it was when it made its last op, and which of its lines' executions that was.
  uint32_t line = 0;
  uint32_t place = 0;
  uint64_t callee = 0;
  uint64_t visit = 0;
  // What its names held then, by program; `look` rises when that has changed.
  uint64_t looked = 0;  // the visit
  uint64_t look = 0;
  std::vector<Seen> seen;
  std::map<uint32_t, Names> names;
  std::vector<std::string> targets;  // assigned by the line before
  std::vector<Told> told;
  // Is the code of its module in the stack around it, which tells of the module's names?
  std::optional<bool> own_module;

  // `frame`: its place in the stack of the op that is made next.
  Told& ToldTo(const Program& program, uint32_t frame) {
    for (Told& each : told) {
      if (each.program != program.id()) continue;
      if (std::exchange(each.restored, program.restored()) != program.restored())
        Remember(program.desc(), each, frame);
      return each;
    }
    if (told.size() == kMostPrograms) told.erase(told.begin());
    Told& made = told.emplace_back();
    made.program = program.id();
    made.call = CallNumber(program.desc().next_op_id(), frame);
    made.restored = program.restored();
    return made;
  }

 private:
  // Ops were taken back, and with them what was told.
  static void Remember(const proto::ProgramDesc& program, Told& told, uint32_t frame) {
    told.names.clear();
    told.look = UINT64_MAX;
    told.visit = 0;
    if (FirstOpOf(told.call) >= program.next_op_id())
      told.call = CallNumber(program.next_op_id(), frame);
    for (const proto::NameChange& change : program.names()) {
      if (change.call() != told.call) continue;
      for (const proto::Naming& named : change.names()) {
        const std::string& name = program.strings(static_cast<int>(named.name()));
        if (named.variable())
          told.names[name] = program.strings(static_cast<int>(named.variable()) - 1);
        else if (named.other())
          told.names[name] = "";
        else
          told.names.erase(name);
      }
    }
  }
};

uint64_t last_serial = 0;
uint64_t last_visit = 0;

// --- marks ---------------------------------------------------------------------------------------

struct MarkObject {
  PyObject_HEAD uint64_t serial;
  Call* call;  // null: of a frame that is not the user's
};

void FreeMark(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<MarkObject*>(self)->call;
  type->tp_free(self);
  Py_DECREF(type);
}

// Somebody began to trace a frame that has a mark: there is nothing to do for it.
PyObject* CallMark(PyObject* self, PyObject*, PyObject*) {
  Py_INCREF(self);
  return self;
}

template <typename F>
void* Slot(F* function) {
  return reinterpret_cast<void*>(function);
}

PyTypeObject* MarkType() {
  static PyTypeObject* const type = [] {
    static std::array<PyType_Slot, 3> slots{{
        {Py_tp_dealloc, Slot(&FreeMark)},
        {Py_tp_call, Slot(&CallMark)},
        {},
    }};
    static PyType_Spec spec{"opstep._core.Call", sizeof(MarkObject), 0, Py_TPFLAGS_DEFAULT,
                            slots.data()};
    PyObject* made = PyType_FromSpec(&spec);
    if (!made) throw py::error_already_set();
    return reinterpret_cast<PyTypeObject*>(made);
  }();
  return type;
}

PyObject* Trace() {
  static PyObject* const name = PyUnicode_InternFromString("f_trace");
  return name;
}

// Calls whose frames are traced, by the frame's address and its code.
Call& TracedCall(PyFrameObject* frame) {
  thread_local std::map<std::pair<PyFrameObject*, uint32_t>, std::unique_ptr<Call>> calls;
  if (calls.size() > 1000) calls.clear();
  PyCodeObject* code = PyFrame_GetCode(frame);
  std::unique_ptr<Call>& call = calls[{frame, LookAt(code).number}];
  Py_DECREF(code);
  if (!call) {
    call = std::make_unique<Call>();
    call->serial = ++last_serial;
  }
  return *call;
}

// What the frame is marked with, or null.
MarkObject* MarkOf(PyFrameObject* frame, bool* traced = nullptr) {
  PyObject* found = PyObject_GetAttr(reinterpret_cast<PyObject*>(frame), Trace());
  if (!found) throw py::error_already_set();
  Py_DECREF(found);  // the frame has it
  if (Py_TYPE(found) == MarkType()) return reinterpret_cast<MarkObject*>(found);
  if (traced) *traced = found != Py_None || PyThreadState_Get()->c_tracefunc;
  return nullptr;
}

// The same, made where it is missing; null for a frame that somebody traces.
MarkObject* Marked(PyFrameObject* frame) {
  bool traced = false;
  if (MarkObject* mark = MarkOf(frame, &traced)) return mark;
  if (traced) return nullptr;
  auto* mark = PyObject_New(MarkObject, MarkType());
  if (!mark) throw py::error_already_set();
  mark->serial = ++last_serial;
  mark->call = nullptr;
  PyObject* const made = reinterpret_cast<PyObject*>(mark);
  const int failed = PyObject_SetAttr(reinterpret_cast<PyObject*>(frame), Trace(), made);
  Py_DECREF(made);  // the frame has it
  if (failed) throw py::error_already_set();
  return mark;
}

Call& CallOf(PyFrameObject* frame) {
  MarkObject* mark = Marked(frame);
  if (!mark) return TracedCall(frame);
  if (!mark->call) {
    mark->call = new Call;
    mark->call->serial = mark->serial;
  }
  return *mark->call;
}

uint64_t SerialOf(PyFrameObject* frame) {
  const MarkObject* mark = Marked(frame);
  return mark ? mark->serial : TracedCall(frame).serial;
}

// --- visits --------------------------------------------------------------------------------------

// The frame makes an op now, in the call of `inner`. A line is executed anew when the frame comes
// from another line, goes back in its code, or calls something else from the same place.
void Visit(Call& call, uint32_t line, uint32_t place, PyFrameObject* inner) {
  const uint64_t callee = inner ? SerialOf(inner) : 0;
  const bool same =
      call.visit && call.line == line &&
      (place > call.place || (place == call.place && callee && callee == call.callee));
  if (!same) call.visit = ++last_visit;
  call.line = line;
  call.place = place;
  call.callee = callee;
}

// --- names ---------------------------------------------------------------------------------------

// What values of layers are called in programs, by the programs' ids: dicts that the programs have.
std::map<uint32_t, PyObject*>& LayerValues() {
  static auto* values = new std::map<uint32_t, PyObject*>;
  return *values;
}

// Variables of a program whose names Python code could have as well: feeds, mostly. Found as the
// program grows.
const std::vector<std::string>& WordsOf(const Program& program) {
  struct Words {
    int looked_at = 0;
    uint32_t restored = 0;
    std::vector<std::string> words;
  };
  static auto* known = new std::map<uint32_t, Words>;
  constexpr size_t kMostProgramsKnown = 64, kMostWords = 16;
  if (known->size() > kMostProgramsKnown) known->clear();
  Words& of = (*known)[program.id()];
  if (of.restored != program.restored()) {
    of = Words();
    of.restored = program.restored();
  }
  const auto& vars = program.desc().blocks(0).vars();
  for (; of.looked_at < vars.size() && of.words.size() < kMostWords; ++of.looked_at) {
    const std::string& name = vars[of.looked_at].name();
    if (name.find_first_of(".@/") == std::string::npos) of.words.push_back(name);
  }
  return of.words;
}

class Looker : public FrameNames {
 public:
  explicit Looker(const Program& program)
      : FrameNames(kMostNames), program_(program.id()), words_(WordsOf(program)) {
    const auto values = LayerValues().find(program.id());
    if (values != LayerValues().end()) layer_values_ = values->second;
  }

  // Has something changed since?
  bool Compare(std::vector<Seen>& before) {
    if (seen_ == before) return false;
    before = std::move(seen_);
    return true;
  }

  std::map<uint32_t, Names> Take() const {
    std::map<uint32_t, Names> names;
    for (const Found& found : found_) {
      std::string text;
      for (size_t i = 0; i < found.depth; ++i) {
        const char* part = PyUnicode_AsUTF8(found.parts[i]);
        const char* variable = part ? PyUnicode_AsUTF8(found.variable) : nullptr;
        if (!variable) {
          PyErr_Clear();  // A name that nobody can type.
          text.clear();
          break;
        }
        text += (i ? "." : "") + std::string(part);
      }
      if (!text.empty()) names[found.program].emplace(text, PyUnicode_AsUTF8(found.variable));
    }
    for (const std::string& word : others_) names[program_].emplace(word, "");
    return names;
  }

 private:
  // Borrowed: nothing runs between a look and Take.
  struct Found {
    std::array<PyObject*, kMostParts> parts;
    size_t depth;
    PyObject* variable;
    uint32_t program;
  };

  void OnVariable(PyObject* variable) override {
    const VariableParts is = PartsOf(variable);
    if (is.name) Add(is.name, is.program);
  }
  void OnValue(PyObject* value) override {
    if (!layer_values_) return;
    PyObject* name = PyDict_GetItemWithError(layer_values_, value);
    if (name && PyUnicode_Check(name)) Add(name, program_);
    if (!name) PyErr_Clear();
  }
  // A name that could be meant for a variable's own, and holds none.
  void OnNames(PyObject* names) override {
    if (!PyDict_Check(names)) return;
    for (const std::string& word : words_) {
      PyObject* const value = PyDict_GetItemString(names, word.c_str());
      if (!value || IsOfProgram(value)) continue;
      seen_.push_back({std::hash<std::string>()(word), 0, program_});
      others_.push_back(word);
    }
  }
  bool IsOfProgram(PyObject* value) const {
    if (IsVariable(value)) return PartsOf(value).program == program_;
    return layer_values_ && IsTensor(value) && PyDict_GetItem(layer_values_, value);
  }
  void Add(PyObject* variable, uint32_t program) {
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < depth(); ++i)
      hash = (hash ^ static_cast<uint64_t>(PyObject_Hash(parts()[i]))) * 1099511628211u;
    seen_.push_back({hash, static_cast<uint64_t>(PyObject_Hash(variable)), program});
    found_.push_back({parts(), depth(), variable, program});
  }

  const uint32_t program_;
  const std::vector<std::string>& words_;
  PyObject* layer_values_ = nullptr;
  std::vector<std::string> others_;  // words that hold something else
  std::vector<Seen> seen_;
  std::vector<Found> found_;
};

// Looks at the frame's names, unless it cannot have assigned any since.
void LookAtNames(Call& call, const Code& code, PyFrameObject* frame, uint32_t before,
                 const Program& program, bool first) {
  if (!first && !Assigns(code, before, call.place)) return;
  call.looked = call.visit;
  Looker looker(program);
  looker.Locals(frame);
  if (!*call.own_module) {
    const py::object globals = py::handle(reinterpret_cast<PyObject*>(frame)).attr("f_globals");
    looker.GlobalsUsedBy(code, globals.ptr());
  }
  if (!looker.Compare(call.seen)) return;
  ++call.look;
  call.names = looker.Take();
  call.targets = before ? TargetsOf(code, before) : std::vector<std::string>();
}

// What has changed for the program.
std::vector<NamedVariable> Changes(const Call& call, Told& told) {
  static const Names kNone;
  const auto found = call.names.find(told.program);
  const Names& now = found == call.names.end() ? kNone : found->second;
  std::vector<NamedVariable> changes;
  const auto assigned = [&call](const std::string& name) {
    return std::find(call.targets.begin(), call.targets.end(), name) != call.targets.end();
  };
  for (const auto& [name, variable] : now) {
    const auto before = told.names.find(name);
    if (before == told.names.end() || before->second != variable)
      changes.push_back({name, variable, assigned(name), variable.empty()});
  }
  for (const auto& [name, variable] : told.names) {
    if (!now.contains(name)) changes.push_back({name, "", false, false});
  }
  told.names = now;
  told.look = call.look;
  return changes;
}

bool IsModule(const Code& code) { return code.function == "<module>"; }

bool IsBelow(const std::string& module) {
  bool found = false;
  ForEachUserFrame([&](const Code& code, PyFrameObject*, PyFrameObject*) {
    found = found || (IsModule(code) && code.file == module);
  });
  return found;
}

thread_local std::vector<CallVisit> run_calls;

}  // namespace

bool IsTraced(PyFrameObject* frame) {
  const py::object trace = py::handle(reinterpret_cast<PyObject*>(frame)).attr(py::handle(Trace()));
  return !trace.is_none() && Py_TYPE(trace.ptr()) != MarkType();
}

void SetMadeBy(Program& program, proto::OpDesc& op) {
  const uint32_t next = program.desc().next_op_id();
  ForEachUserFrame([&](const Code& code, PyFrameObject* frame, PyFrameObject* inner) {
    Call& call = CallOf(frame);
    const uint32_t before = call.place, place = PlaceIn(frame), line = LineAt(code, frame, place);
    Visit(call, line, place, inner);
    const auto at = static_cast<uint32_t>(op.stack_size());
    Told& told = call.ToldTo(program, at);
    if (told.visit != call.visit) {
      told.visit = call.visit;
      told.visit_number = CallNumber(next, at);
    }
    op.add_stack(FrameIndex(program, code, place, line));
    op.add_calls(told.call);
    op.add_visits(told.visit_number);
    if (!call.own_module) call.own_module = IsModule(code) || IsBelow(code.file);
    LookAtNames(call, code, frame, before, program, call.looked != call.visit);
    if (at == 0) {
      for (const std::string& target : TargetsOf(code, place))
        op.add_targets(program.InternString(target));
    }
    if (told.look == call.look) return;
    const std::vector<NamedVariable> changes = Changes(call, told);
    if (!changes.empty()) program.AddNames(told.call, next, changes);
  });
}

void NoteNames(Program& program) {
  if (std::exchange(program.names_noted(), program.version()) == program.version()) return;
  ForEachUserFrame([&](const Code& code, PyFrameObject* frame, PyFrameObject*) {
    const MarkObject* mark = MarkOf(frame);
    Call* call = mark ? mark->call : nullptr;
    if (!call) return;
    const auto told = std::find_if(call->told.begin(), call->told.end(), [&](const Told& each) {
      return each.program == program.id() && each.restored == program.restored();
    });
    if (told == call->told.end()) return;
    LookAtNames(*call, code, frame, call->place, program, true);
    if (told->look == call->look) return;
    const std::vector<NamedVariable> changes = Changes(*call, *told);
    if (!changes.empty()) program.AddNames(told->call, program.desc().next_op_id(), changes);
  });
}

void LiveCalls(std::vector<CallVisit>& calls) {
  calls.clear();
  ForEachUserFrame([&](const Code& code, PyFrameObject* frame, PyFrameObject* inner) {
    Call& call = CallOf(frame);
    const uint32_t place = PlaceIn(frame);
    Visit(call, LineAt(code, frame, place), place, inner);
    calls.push_back({call.serial, call.visit});
  });
  std::reverse(calls.begin(), calls.end());
}

RunCalls::RunCalls() : before_(std::move(run_calls)) { LiveCalls(run_calls); }
RunCalls::~RunCalls() { run_calls = std::move(before_); }

void BindCalls(py::module_& m) {
  SetRunCalls([]() -> const std::vector<CallVisit>& { return run_calls; });
  m.def("set_layer_values", [](uint32_t program, py::dict values) {
    PyObject*& kept = LayerValues()[program];
    PyObject* const before = std::exchange(kept, values.release().ptr());
    Py_XDECREF(before);
  });
  m.def("drop_layer_values", [](uint32_t program) {
    const auto it = LayerValues().find(program);
    if (it == LayerValues().end()) return;
    PyObject* values = it->second;
    LayerValues().erase(it);
    Py_DECREF(values);
  });
}

}  // namespace opstep::python
