// FrameLocals: local variables, for each version of Python.
#include "opstep/bindings/frames/frame_locals.h"

#if PY_VERSION_HEX < 0x030b0000
#include <frameobject.h>
#elif PY_VERSION_HEX < 0x030c0000
#include <internal/pycore_frame.h>
#endif

namespace opstep::python {
namespace {

#if PY_VERSION_HEX >= 0x030b0000
// Python's CO_FAST_CELL and CO_FAST_FREE: the value is in a cell.
bool InCell(PyCodeObject* code, size_t i) {
  constexpr char kInCell = static_cast<char>(0x40 | 0x80);
  return PyBytes_AS_STRING(code->co_localspluskinds)[i] & kInCell;
}
#else
// An argument shared with inner functions has its value in its cell, after the others.
bool InCell(PyCodeObject* code, size_t i) { return i >= static_cast<size_t>(code->co_nlocals); }
#endif

}  // namespace

bool FrameLocals::is_shared(size_t i) const { return InCell(code_, i); }

#if PY_VERSION_HEX >= 0x030c0000

FrameLocals::FrameLocals(PyFrameObject* frame) : frame_(frame), code_(PyFrame_GetCode(frame)) {
  if (of_function()) size_ = static_cast<size_t>(code_->co_nlocalsplus);
}

PyObject* FrameLocals::name(size_t i) const {
  return PyTuple_GET_ITEM(code_->co_localsplusnames, static_cast<Py_ssize_t>(i));
}

PyObject* FrameLocals::value(size_t i) const {
  PyObject* const value = PyFrame_GetVar(frame_, name(i));
  if (!value) {
    PyErr_Clear();
    return nullptr;
  }
  Py_DECREF(value);
  return value;
}

#elif PY_VERSION_HEX >= 0x030b0000

FrameLocals::FrameLocals(PyFrameObject* frame) : frame_(frame), code_(PyFrame_GetCode(frame)) {
  _PyInterpreterFrame* const running = frame->f_frame;
  // A Python with another frame layout: then no name is known.
  if (!of_function() || !running || running->f_code != code_ || running->frame_obj != frame) return;
  values_ = running->localsplus;
  size_ = static_cast<size_t>(code_->co_nlocalsplus);
}

PyObject* FrameLocals::name(size_t i) const {
  return PyTuple_GET_ITEM(code_->co_localsplusnames, static_cast<Py_ssize_t>(i));
}

PyObject* FrameLocals::value(size_t i) const {
  PyObject* const value = values_[i];
  return InCell(code_, i) && value && PyCell_Check(value) ? PyCell_GET(value) : value;
}

#else

FrameLocals::FrameLocals(PyFrameObject* frame) : frame_(frame), code_(PyFrame_GetCode(frame)) {
  if (!of_function()) return;
  values_ = frame->f_localsplus;
  size_ = static_cast<size_t>(code_->co_nlocals + PyTuple_GET_SIZE(code_->co_cellvars) +
                              PyTuple_GET_SIZE(code_->co_freevars));
}

PyObject* FrameLocals::name(size_t i) const {
  auto at = static_cast<Py_ssize_t>(i);
  for (PyObject* names : {code_->co_varnames, code_->co_cellvars}) {
    if (at < PyTuple_GET_SIZE(names)) return PyTuple_GET_ITEM(names, at);
    at -= PyTuple_GET_SIZE(names);
  }
  return PyTuple_GET_ITEM(code_->co_freevars, at);
}

PyObject* FrameLocals::value(size_t i) const {
  PyObject* const value = values_[i];
  return InCell(code_, i) && value && PyCell_Check(value) ? PyCell_GET(value) : value;
}

#endif

}  // namespace opstep::python
