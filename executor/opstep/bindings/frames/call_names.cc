// The values of names in a Python call: found, compared and recorded in programs.
#include "opstep/bindings/frames/call_names.h"

#include <algorithm>
#include <utility>

#include "opstep/bindings/frames/frame_names.h"

namespace opstep::python {
namespace {

// The most names checked in one look at a frame.
constexpr size_t kMostNames = 2000;
// A frame that builds many programs remembers the records of the latest ones.
constexpr size_t kMostPrograms = 8;

// The names of values of layers in programs, by program id: dicts that the programs own.
std::map<uint32_t, PyObject*>& LayerValues() {
  static auto* values = new std::map<uint32_t, PyObject*>;
  return *values;
}

// Variables of a program whose names Python code could also use: mostly feeds. Found as the program
// grows.
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

  // A hash of the values of attributes, closure names and module names; 0: there are none.
  uint64_t shared() const { return saw_shared() ? shared_ | 1 : 0; }
  // Has something changed since?
  bool Compare(std::vector<SeenName>& before) {
    if (seen_ == before) return false;
    before = std::move(seen_);
    return true;
  }

  std::map<uint32_t, HeldNames> Take() const {
    std::map<uint32_t, HeldNames> names;
    for (const Found& found : found_) {
      const char* variable = PyUnicode_AsUTF8(found.variable);
      if (!variable) PyErr_Clear();
      const std::string text = variable ? NameOf(found.parts, found.depth) : "";
      if (!text.empty()) names[found.program].emplace(text, variable);
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
  void OnNamed(PyObject* variable, uint32_t program) override { Add(variable, program); }
  bool Wants(uint32_t program) const override { return program == program_; }
  void OnValue(PyObject* value) override {
    if (!layer_values_) return;
    PyObject* name = PyDict_GetItemWithError(layer_values_, value);
    if (name && PyUnicode_Check(name)) Add(name, program_);
    if (!name) PyErr_Clear();
  }
  // A name that equals a variable's own name, but holds no variable.
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
    const auto held = static_cast<uint64_t>(PyObject_Hash(variable));
    if (depth() > 1 || is_shared()) shared_ = (shared_ ^ hash ^ held * 3) * 1099511628211u;
    seen_.push_back({hash, held, program});
    found_.push_back({parts(), depth(), variable, program});
  }

  const uint32_t program_;
  const std::vector<std::string>& words_;
  PyObject* layer_values_ = nullptr;
  std::vector<std::string> others_;  // words that hold something else
  std::vector<SeenName> seen_;
  uint64_t shared_ = 0;
  std::vector<Found> found_;
};

// Ops were removed again, and their records with them.
void Remember(const proto::ProgramDesc& program, ToldNames& told, uint32_t frame) {
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

bool IsModule(const Code& code) { return code.function == "<module>"; }

bool IsBelow(const std::string& module) {
  bool found = false;
  ForEachUserFrame([&](const Code& code, PyFrameObject*, PyFrameObject*) {
    found = found || (IsModule(code) && code.file == module);
  });
  return found;
}

}  // namespace

ToldNames* CallNames::FindTold(const Program& program) {
  const auto told = std::find_if(told_.begin(), told_.end(), [&](const ToldNames& each) {
    return each.program == program.id();
  });
  return told == told_.end() || told->restored != program.restored() ? nullptr : &*told;
}

ToldNames& CallNames::ToldTo(const Program& program, uint32_t frame) {
  for (ToldNames& each : told_) {
    if (each.program != program.id()) continue;
    if (std::exchange(each.restored, program.restored()) != program.restored())
      Remember(program.desc(), each, frame);
    return each;
  }
  if (told_.size() == kMostPrograms) told_.erase(told_.begin());
  ToldNames& made = told_.emplace_back();
  made.program = program.id();
  made.call = CallNumber(program.desc().next_op_id(), frame);
  made.restored = program.restored();
  return made;
}

bool CallNames::Look(const Code& code, PyFrameObject* frame, uint32_t before, uint32_t now,
                     const Program& program, uint64_t visit, bool others) {
  const bool calls = others || before != now;
  if (visit && looked_ == visit && !Assigns(code, before, now) && !(calls && shared_))
    return others;
  looked_ = visit;
  if (!own_module_) own_module_ = IsModule(code) || IsBelow(code.file);
  Looker looker(program);
  looker.Locals(frame);
  if (!*own_module_) {
    const py::object globals = py::handle(reinterpret_cast<PyObject*>(frame)).attr("f_globals");
    looker.GlobalsUsedBy(code, globals.ptr());
  }
  const bool changed = std::exchange(shared_, looker.shared()) != looker.shared();
  if (looker.Compare(seen_)) {
    ++look_;
    names_ = looker.Take();
    targets_ = before ? TargetsOf(code, before) : std::vector<std::string>();
  }
  return others || changed || StoresGlobals(code);
}

std::vector<NamedVariable> CallNames::Changes(ToldNames& told) const {
  static const HeldNames kNone;
  const auto found = names_.find(told.program);
  const HeldNames& now = found == names_.end() ? kNone : found->second;
  std::vector<NamedVariable> changes;
  const auto assigned = [this](const std::string& name) {
    return std::find(targets_.begin(), targets_.end(), name) != targets_.end();
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
  told.look = look_;
  return changes;
}

void CallNames::Tell(Program& program, ToldNames& told) const {
  if (told.look == look_) return;
  const std::vector<NamedVariable> changes = Changes(told);
  if (!changes.empty()) program.AddNames(told.call, program.desc().next_op_id(), changes);
}

void BindCallNames(py::module_& m) {
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
