// Runtime values of imperative mode as Python sees them.
#pragma once

#include "opstep/bindings/bindings.h"
#include "runtime/tracer.h"

namespace opstep::python {

// values.cc: a runtime value as Python sees it, an object of the class opstep.imperative.Value.
struct ValueObject {
  PyObject_HEAD PyObject* weak_references;
  ValuePtr core;
};

bool IsValue(PyObject* object);
// That of an object for which IsValue holds.
const ValuePtr& CoreOf(PyObject* value);
// The object that shows the value: the existing one, or a new one.
py::object ToPython(ValuePtr value);
// A number as an array of one element without dimensions.
py::array NumpyScalar(py::handle number, DType dtype);

// The operators of Python that are one op each.
enum class Operator { kAdd, kSub, kMul, kDiv, kPow, kMatmul };
inline constexpr size_t kOperators = 6;
// tracing.cc: runs the operator's op.
PyObject* RunOperator(Operator which, PyObject* left, PyObject* right);

}  // namespace opstep::python

// Functions of the bindings take and give values as they are in C++.
template <>
class pybind11::detail::type_caster<opstep::ValuePtr> {
 public:
  static constexpr auto name = const_name("Value");
  template <typename T>
  using cast_op_type = opstep::ValuePtr&;
  operator opstep::ValuePtr&() { return value_; }

  bool load(handle source, bool) {
    if (!source || !opstep::python::IsValue(source.ptr())) return false;
    value_ = opstep::python::CoreOf(source.ptr());
    return true;
  }
  static handle cast(opstep::ValuePtr value, return_value_policy, handle) {
    return value ? opstep::python::ToPython(std::move(value)).release() : none().release();
  }

 private:
  opstep::ValuePtr value_;
};
