// The local variables of a running function. Reading `f_locals` before Python 3.13 makes a copy
// that the frame keeps and that the function's own locals() returns: here they are read in place.
#pragma once

#include "opstep/bindings/bindings.h"

namespace opstep::python {

class FrameLocals {
 public:
  // Of a frame that is running, in a call. Empty if it is not the frame of a function.
  explicit FrameLocals(PyFrameObject* frame);
  ~FrameLocals() { Py_DECREF(code_); }
  FrameLocals(const FrameLocals&) = delete;

  // Otherwise the frame belongs to a module or a class, which has its own dictionary.
  bool of_function() const { return (code_->co_flags & CO_OPTIMIZED) != 0; }
  size_t size() const { return size_; }
  // Borrowed.
  PyObject* name(size_t i) const;
  // Borrowed from the frame; null when it has no value. A name may occur twice, with one value.
  PyObject* value(size_t i) const;
  // Is it in a closure, so that other functions may assign it?
  bool is_shared(size_t i) const;

 private:
  PyFrameObject* const frame_;
  PyCodeObject* const code_;
  size_t size_ = 0;
  // Before Python 3.12.
  PyObject** values_ = nullptr;
};

}  // namespace opstep::python
