// One call of an op's function in imperative mode, and the state of its thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "ops/op.h"
#include "opstep/bindings/bindings.h"

namespace opstep::python {

// The arguments of a call: for each slot, in the order of the schema, a value, a number, a name of
// an output, a list of those, or null for nothing.
struct Given {
  std::span<PyObject* const> inputs;
  std::span<PyObject* const> outputs;
  std::span<const std::pair<PyObject*, PyObject*>> attrs;
  // Begins with `scope`; made from the op's type when there is none.
  std::string_view scope, name;
};

// Runs an op at once and gives its outputs, in a tuple where there may be several. The plan is
// cached by all arguments and the user's line.
py::object TraceCall(const OpDef& def, const Given& given, bool gives_many);

// State for ops that this thread calls.
struct Mode {
  bool imperative = false;
  bool recording = true;   // are values for gradients kept?
  bool loops = false;      // is what a loop keeps for gradients counted?
  bool stop_next = false;  // opstep.debug.breakpoint() was called
  std::string names;       // prefix of the names of ops
};
Mode& ThisThread();

}  // namespace opstep::python
