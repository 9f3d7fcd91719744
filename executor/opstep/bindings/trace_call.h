// TraceCall: one call of an op's function in imperative mode.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "ops/op.h"
#include "opstep/bindings/bindings.h"

namespace opstep::python {

// What a call gives to an op: for each slot, in the order of the schema, a value, a number, a name
// of an output, a list of those, or null for nothing.
struct Given {
  std::span<PyObject* const> inputs;
  std::span<PyObject* const> outputs;
  std::span<const std::pair<PyObject*, PyObject*>> attrs;
  // Begins with `scope`; of the op's type when there is none.
  std::string_view scope, name;
};

// Runs an op at once and gives its outputs, in a tuple where there may be several. The plan is
// cached by all that is given and the user's line.
py::object TraceCall(const OpDef& def, const Given& given, bool gives_many);

// What holds for ops that this thread calls.
struct Mode {
  bool imperative = false;
  bool recording = true;   // is what gradients need kept?
  bool stop_next = false;  // opstep.debug.breakpoint() was called
  std::string names;       // what the names of ops begin with
};
Mode& ThisThread();

}  // namespace opstep::python
