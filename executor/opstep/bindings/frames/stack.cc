// The lines of the user's Python code that led to a call.
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory_resource>
#include <unordered_map>

#include "opstep/bindings/frames/frames.h"

namespace opstep::python {
namespace {

// Code that runs once (notebook cells) must not pile up.
constexpr size_t kMaxCode = 8192;
constexpr size_t kMaxPrograms = 64;
constexpr size_t kMaxCalls = 65536;
// Of all frames, not only the user's.
constexpr size_t kMaxWalk = 400;

// All of these are leaked: Python objects must not be released after the interpreter has ended.
std::unordered_map<PyCodeObject*, Code>& Cache() {
  static auto* cache = new std::unordered_map<PyCodeObject*, Code>;
  return *cache;
}

// Frames that were interned before: program → number of the code and place in it → index.
using FrameIndexes = std::unordered_map<uint64_t, uint32_t>;
std::unordered_map<uint32_t, FrameIndexes>& Interned() {
  static auto* interned = new std::unordered_map<uint32_t, FrameIndexes>;
  return *interned;
}

// Stacks as a tree: (number of the stack around, number of the code, place in it) → its number.
struct StackCall {
  uint64_t around;
  uint32_t code;
  uint32_t place;
  bool operator==(const StackCall&) const = default;
};
struct HashStackCall {
  size_t operator()(const StackCall& call) const {
    uint64_t hash = call.around * 0x9e3779b97f4a7c15u ^ (uint64_t{call.code} << 32 | call.place);
    hash *= 0xd6e8feb86659fd93u;
    return hash ^ hash >> 32;
  }
};
std::unordered_map<StackCall, uint64_t, HashStackCall>& StackCalls() {
  static auto* calls = new std::unordered_map<StackCall, uint64_t, HashStackCall>;
  return *calls;
}
// Rises when the stacks remembered by threads become invalid.
uint64_t forgotten = 0;

void ForgetCode() {
  Cache().clear();
  ++forgotten;
}

std::vector<std::string>& PackageFolders() {
  static auto* folders = new std::vector<std::string>;
  return *folders;
}

// Gives a file's name for people, or None; unset outside of notebooks.
py::object& FileNamer() {
  static auto* namer = new py::object;
  return *namer;
}

bool IsUserFile(const std::string& file) {
  // Frozen modules are importlib and runpy; the others run the user's code for a debugger, for
  // `python -m` or at the end of a `with`.
  if (file.starts_with("<frozen ")) return false;
  for (const std::string& folder : PackageFolders()) {
    if (file.starts_with(folder)) return false;
  }
  static constexpr std::string_view kFiles[] = {"/runpy.py", "/bdb.py", "/pdb.py",
                                                "/contextlib.py"};
  static constexpr std::string_view kFolders[] = {"/importlib/", "/debugpy/", "/pydevd",
                                                  "/_pydevd"};
  return std::none_of(std::begin(kFiles), std::end(kFiles),
                      [&](std::string_view end) { return file.ends_with(end); }) &&
         std::none_of(std::begin(kFolders), std::end(kFolders),
                      [&](std::string_view part) { return file.find(part) != std::string::npos; });
}

// A path that is not UTF-8 has lone surrogates, which a program cannot hold.
std::string ToText(const py::object& text) {
  PyObject* bytes = PyUnicode_AsEncodedString(text.ptr(), "utf-8", "replace");
  if (!bytes) throw py::error_already_set();
  return py::reinterpret_steal<py::bytes>(bytes);
}

// Names of functions, classes and modules hold no variable.
bool IsCode(PyObject* value) {
  return PyFunction_Check(value) || PyCFunction_Check(value) || PyType_Check(value) ||
         PyModule_Check(value);
}

// Names of the module that may hold variables: a missing one may be assigned later.
std::vector<std::string> GlobalsUsed(const Code& code, PyFrameObject* frame) {
  const py::object globals = py::handle(reinterpret_cast<PyObject*>(frame)).attr("f_globals");
  if (!PyDict_Check(globals.ptr())) return GlobalNames(code);
  std::vector<std::string> used;
  for (const std::string& name : GlobalNames(code)) {
    PyObject* const value = PyDict_GetItemString(globals.ptr(), name.c_str());
    const bool built_in = !value && PyDict_GetItemString(PyEval_GetBuiltins(), name.c_str());
    if (!built_in && (!value || !IsCode(value))) used.push_back(name);
  }
  return used;
}

}  // namespace

const Code& LookAt(PyCodeObject* code) {
  auto& cache = Cache();
  if (const auto it = cache.find(code); it != cache.end()) return it->second;
  if (cache.size() >= kMaxCode) ForgetCode();
  static uint32_t numbers = 0;
  Code entry;
  entry.number = ++numbers;
  entry.keep = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(code));
  entry.file = ToText(entry.keep.attr("co_filename"));
  if (!entry.file.starts_with('<') && !entry.file.starts_with('/')) {
    entry.file = std::filesystem::absolute(entry.file).lexically_normal().string();
  }
  entry.user = IsUserFile(entry.file);
  if (entry.user && FileNamer()) {
    const py::object name = FileNamer()(entry.file);
    if (!name.is_none()) entry.file = ToText(name);
  }
  const char* name = py::hasattr(entry.keep, "co_qualname") ? "co_qualname" : "co_name";
  entry.function = ToText(entry.keep.attr(name));
  return cache.emplace(code, std::move(entry)).first->second;
}

uint64_t CodesForgotten() { return forgotten; }

uint32_t PlaceIn(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030b0000
  return static_cast<uint32_t>(PyFrame_GetLasti(frame));
#else
  static PyObject* const kPlace = PyUnicode_InternFromString("f_lasti");
  return py::handle(reinterpret_cast<PyObject*>(frame)).attr(py::handle(kPlace)).cast<uint32_t>();
#endif
}

uint32_t LineAt(const Code& code, PyFrameObject* frame, uint32_t place) {
  const auto [it, added] = code.lines.try_emplace(place);
  if (added) it->second = static_cast<uint32_t>(PyFrame_GetLineNumber(frame));
  return it->second;
}

std::vector<SourceFrame> UserStack() {
  std::vector<SourceFrame> stack;
  ForEachUserFrame([&](const Code& code, PyFrameObject* frame, PyFrameObject*) {
    stack.push_back({code.file, code.function, LineAt(code, frame, PlaceIn(frame))});
  });
  return stack;
}

std::vector<py::object> UserFrames() {
  std::vector<py::object> frames;
  ForEachUserFrame([&](const Code&, PyFrameObject* frame, PyFrameObject*) {
    frames.push_back(py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(frame)));
  });
  return frames;
}

uint32_t FrameIndex(Program& program, const Code& code, PyFrameObject* frame, uint32_t place,
                    uint32_t line) {
  if (Interned().size() >= kMaxPrograms) Interned().clear();
  FrameIndexes& known = Interned()[program.id()];
  const auto [it, added] = known.try_emplace(uint64_t{code.number} << 32 | place);
  if (added) {
    it->second = program.InternFrame(
        {code.file, code.function, line, LocalNames(code), GlobalsUsed(code, frame)});
  }
  return it->second;
}

void SetUserStack(Program& program, proto::OpDesc& op) {
  ForEachUserFrame([&](const Code& code, PyFrameObject* frame, PyFrameObject*) {
    const uint32_t place = PlaceIn(frame);
    op.add_stack(FrameIndex(program, code, frame, place, LineAt(code, frame, place)));
  });
}

uint64_t UserStackNumber() {
  // The thread's last stack, outermost first: usually all but the innermost frames are unchanged.
  // The codes are alive: they are in the cache.
  struct Seen {
    PyCodeObject* code;
    uint32_t number;
    uint32_t place;
    bool user;
    uint64_t stack;
  };
  thread_local std::vector<Seen> kept;
  thread_local uint64_t remembered = 0;
  std::array<std::byte, 4096> memory;
  std::pmr::monotonic_buffer_resource few(memory.data(), memory.size());
  std::pmr::vector<std::pair<PyCodeObject*, uint32_t>> walk(&few);
  walk.reserve(64);
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame && walk.size() < kMaxWalk) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    Py_DECREF(code);  // the frame has it
    walk.emplace_back(code, PlaceIn(frame));
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  if (StackCalls().size() >= kMaxCalls) {
    StackCalls().clear();
    ++forgotten;
  }
  // Looking at a frame may run Python code, which may call this again.
  std::vector<Seen> seen = std::move(kept);
  if (remembered != forgotten) seen.clear();
  remembered = forgotten;
  bool same = true;
  uint64_t stack = 0;
  for (size_t i = 0; i < walk.size(); ++i) {
    const auto [code, place] = walk[walk.size() - 1 - i];
    if (i == seen.size()) {
      const Code& known = LookAt(code);
      seen.push_back({code, known.number, place, known.user, 0});
      same = false;
    } else if (Seen& last = seen[i]; last.code != code) {
      const Code& known = LookAt(code);
      last = {code, known.number, place, known.user, 0};
      same = false;
    } else if (last.user && last.place != place) {
      last.place = place;
      same = false;
    }
    Seen& now = seen[i];
    if (!same && now.user) {
      static uint64_t numbers = 0;
      const auto [it, added] = StackCalls().try_emplace({stack, now.number, now.place});
      if (added) it->second = ++numbers;
      now.stack = it->second;
    } else if (!same) {
      now.stack = stack;
    }
    stack = now.stack;
  }
  // Numbers of inner frames belonged to another stack around them.
  seen.resize(walk.size());
  kept = std::move(seen);
  return stack;
}

std::string UserPlace() {
  const std::vector<SourceFrame> stack = UserStack();
  if (stack.empty()) return "";
  const std::string& file = stack[0].file;
  return Cat(" (", file.substr(file.find_last_of('/') + 1), ":", stack[0].line, ")");
}

void BindStack(py::module_& m) {
  m.def("hide_frames_below", [](std::string folder) {
    PackageFolders().push_back(std::move(folder));
    ForgetCode();
  });
  m.def("set_file_namer", [](py::object namer) {
    FileNamer() = std::move(namer);
    ForgetCode();
  });
  m.def("user_stack_number", &UserStackNumber);
  m.def("user_stack", [] {
    py::list out;
    for (const SourceFrame& f : UserStack()) out.append(py::make_tuple(f.file, f.line, f.function));
    return out;
  });
}

}  // namespace opstep::python
