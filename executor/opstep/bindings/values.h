#pragma once

#include "opstep/bindings/bindings.h"
#include "runtime/tracer.h"

namespace opstep::python {

// values.cc: runtime values and the class opstep.imperative.Value that Python sees them as.
bool IsValue(PyObject* object);
ValuePtr CoreOf(PyObject* value);
py::object ToPython(ValuePtr value);
// A number as an array of one element and no dimension.
py::array NumpyScalar(py::handle number, DType dtype);

}  // namespace opstep::python
