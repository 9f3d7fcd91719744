#pragma once

#include <utility>

#include "opstep/bindings/bindings.h"

namespace opstep::python {

// callback.cc: throws what Python code raised: a sentence of ours as it is, else "<who> raised
// ValueError: … (train.py:12)". Ctrl-C ends the run. Needs the GIL.
[[noreturn]] void ThrowFromPython(const char* who, py::error_already_set error);

// Calls Python code from inside a run, on whatever thread that is.
template <typename F>
void CallPython(const char* who, F&& call) {
  OPSTEP_CHECK(!Finalizing(), "Python is ending");
  const py::gil_scoped_acquire gil;
  try {
    std::forward<F>(call)();
  } catch (py::error_already_set& error) {
    ThrowFromPython(who, std::move(error));
  }
}

}  // namespace opstep::python
