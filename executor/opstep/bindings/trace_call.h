#pragma once

#include <span>
#include <string>
#include <vector>

#include "ops/op.h"
#include "opstep/bindings/bindings.h"

namespace opstep::python {

// Runs an op at once, with what its slots are given in the order of the schema: values, numbers,
// names of outputs, lists of those, or null for nothing. `attrs` is a dict or null. Gives the
// outputs. The plan is cached by all of that and the user's line.
std::vector<py::object> TraceCall(const OpDef& def, std::span<PyObject* const> inputs,
                                  std::span<PyObject* const> outputs, PyObject* attrs,
                                  std::string name);

// Is what gradients need kept on this thread? Gives what held before.
bool SetRecording(bool on);
// An attached debugger stops at this thread's next op.
void StopNext();

}  // namespace opstep::python
