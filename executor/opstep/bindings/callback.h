// Python code that is called from inside a run.
#pragma once

#include <optional>
#include <utility>

#include "opstep/bindings/bindings.h"

namespace opstep::python {

// callback.cc: throws the exception of Python code: an error of opstep as it is, else "<who> raised
// ValueError: … (train.py:12)". Ctrl-C ends the run. Needs the GIL.
[[noreturn]] void ThrowFromPython(const char* who, py::error_already_set error);

// callback.cc: the GIL while it lives, for a thread that may be inside a run. When the interpreter
// ends meanwhile, the thread sleeps until the process ends: Python would end it inside our stack.
class WithGil {
 public:
  WithGil();
  WithGil(const WithGil&) = delete;

 private:
  std::optional<py::gil_scoped_acquire> gil_;
};

// callback.cc: calls Python code that may run for a while, with the same care. Needs the GIL.
py::object Invoke(const py::object& callable, const py::tuple& args);

// Runs `call`, which uses Python's objects, from inside a run, on any thread.
template <typename F>
void CallPython(const char* who, F&& call) {
  OPSTEP_CHECK(!Finalizing(), "Python is ending");
  const WithGil gil;
  try {
    std::forward<F>(call)();
  } catch (py::error_already_set& error) {
    ThrowFromPython(who, std::move(error));
  }
}

}  // namespace opstep::python
