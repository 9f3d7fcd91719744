// Which lines of the user's Python led to a call.
#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "opstep/bindings/bindings.h"

namespace opstep::python {
namespace {

constexpr size_t kMaxFrames = 100;
// Code that is run once and thrown away (notebook cells) must not pile up.
constexpr size_t kMaxCode = 8192;
constexpr size_t kMaxPrograms = 64;

struct Code {
  py::object keep;      // the key is its address
  uint32_t number = 0;  // never used again
  bool user = false;
  std::string file;
  std::string function;
};

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

// A path that is no UTF-8 has lone surrogates, which a program cannot carry.
std::string ToText(const py::object& text) {
  PyObject* bytes = PyUnicode_AsEncodedString(text.ptr(), "utf-8", "replace");
  if (!bytes) throw py::error_already_set();
  return py::reinterpret_steal<py::bytes>(bytes);
}

const Code& Look(PyCodeObject* code) {
  auto& cache = Cache();
  if (const auto it = cache.find(code); it != cache.end()) return it->second;
  if (cache.size() >= kMaxCode) Cache().clear();
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

// Where in its code a frame is: Python knows that at once, but must search for the line.
uint32_t PlaceIn(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030b0000
  return static_cast<uint32_t>(PyFrame_GetLasti(frame));
#else
  return static_cast<uint32_t>(PyFrame_GetLineNumber(frame));
#endif
}

uint32_t LineOf(PyFrameObject* frame) {
  return static_cast<uint32_t>(PyFrame_GetLineNumber(frame));
}

// Calls visit(code, frame) for each of the user's frames, innermost first.
template <typename Visit>
void ForEachUserFrame(Visit visit) {
  size_t count = 0;
  PyFrameObject* top = PyEval_GetFrame();
  py::object frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(top));
  while (frame && count < kMaxFrames) {
    auto* raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
    PyCodeObject* code = PyFrame_GetCode(raw);
    const Code& known = Look(code);
    Py_DECREF(code);
    if (known.user) {
      visit(known, raw);
      ++count;
    }
    frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(raw)));
  }
}

}  // namespace

std::vector<SourceFrame> UserStack() {
  std::vector<SourceFrame> stack;
  ForEachUserFrame([&](const Code& code, PyFrameObject* frame) {
    stack.push_back({code.file, code.function, LineOf(frame)});
  });
  return stack;
}

std::vector<py::object> UserFrames() {
  std::vector<py::object> frames;
  ForEachUserFrame([&](const Code&, PyFrameObject* frame) {
    frames.push_back(py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(frame)));
  });
  return frames;
}

void SetUserStack(Program& program, proto::OpDesc& op) {
  if (Interned().size() >= kMaxPrograms) Interned().clear();
  FrameIndexes& known = Interned()[program.id()];
  ForEachUserFrame([&](const Code& code, PyFrameObject* frame) {
    const auto [it, added] = known.try_emplace(uint64_t{code.number} << 32 | PlaceIn(frame));
    if (added) it->second = program.InternFrame({code.file, code.function, LineOf(frame)});
    op.add_stack(it->second);
  });
}

void AppendStackKey(std::string& key) {
  ForEachUserFrame([&](const Code& code, PyFrameObject* frame) {
    const uint64_t place = uint64_t{code.number} << 32 | PlaceIn(frame);
    key.append(reinterpret_cast<const char*>(&place), sizeof place);
  });
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
    Cache().clear();
  });
  m.def("set_file_namer", [](py::object namer) {
    FileNamer() = std::move(namer);
    Cache().clear();
  });
  m.def("user_stack", [] {
    py::list out;
    for (const SourceFrame& f : UserStack()) out.append(py::make_tuple(f.file, f.line, f.function));
    return out;
  });
}

}  // namespace opstep::python
