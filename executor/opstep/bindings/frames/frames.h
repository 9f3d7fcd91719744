// The bindings' access to Python's frames. All of it needs the GIL.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "opstep/bindings/bindings.h"

namespace opstep::python {

class Flow;

// Facts about a code object. It is kept alive, so that no other object gets its address.
struct Code {
  py::object keep;
  uint32_t number = 0;  // never used again
  bool user = false;    // written by the user, not by this package or by what runs programs
  std::string file;
  std::string function;

  // The lines of places: Python must search for them.
  mutable std::unordered_map<uint32_t, uint32_t> lines;
  // Of calls at a place: see TargetsOf.
  mutable std::unordered_map<uint32_t, std::vector<std::string>> targets;
  // Filled on first use.
  mutable std::optional<std::vector<std::string>> local_names, global_names;
  mutable std::optional<bool> stores_globals;
  mutable std::vector<uint32_t> stores;  // how many names are assigned before each instruction
  mutable std::shared_ptr<const Flow> flow;
};

// The reference is good until the next call.
const Code& LookAt(PyCodeObject* code);
// Code that runs once must not pile up: rises when the codes were forgotten.
uint64_t CodesForgotten();

// Where in its code a frame is: the offset of its instruction in bytes.
uint32_t PlaceIn(PyFrameObject* frame);
uint32_t LineAt(const Code& code, PyFrameObject* frame, uint32_t place);

// The frame's index in the program.
uint32_t FrameIndex(Program& program, const Code& code, PyFrameObject* frame, uint32_t place,
                    uint32_t line);

// Local variables of a function, including shared ones; empty for a module.
const std::vector<std::string>& LocalNames(const Code& code);
// Names of the module, or of a class, in the code.
const std::vector<std::string>& GlobalNames(const Code& code);
// Does a function assign names of its module?
bool StoresGlobals(const Code& code);
// Does the code between two places assign a name?
bool Assigns(const Code& code, uint32_t from, uint32_t to);
// The names that the result of the call at that place is assigned to: x = f(), self.x = f(),
// a, b = f().
const std::vector<std::string>& TargetsOf(const Code& code, uint32_t place);

// Calls visit(code, frame, inner) for each of the user's frames, innermost first; `inner` is the
// frame that it has called, or null.
template <typename Visit>
void ForEachUserFrame(Visit visit) {
  constexpr size_t kMaxFrames = 100;
  size_t count = 0;
  PyFrameObject* top = PyEval_GetFrame();
  py::object frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(top));
  py::object inner;
  while (frame && count < kMaxFrames) {
    auto* raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
    PyCodeObject* code = PyFrame_GetCode(raw);
    const Code& known = LookAt(code);
    Py_DECREF(code);
    if (known.user) {
      visit(known, raw, reinterpret_cast<PyFrameObject*>(inner.ptr()));
      ++count;
    }
    inner = std::move(frame);
    frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(raw)));
  }
}

}  // namespace opstep::python
