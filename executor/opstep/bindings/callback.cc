// Python code that is called from inside a run, and its errors.
#include "opstep/bindings/callback.h"

#include <unistd.h>

namespace opstep::python {
namespace {

[[noreturn]] void Sleep() {
  while (true) ::pause();
}

}  // namespace

WithGil::WithGil() {
  // This catches the end of the thread, not an error.
  try {
    gil_.emplace();
  } catch (...) {
    Sleep();
  }
}

py::object Invoke(const py::object& callable, const py::tuple& args) {
  PyObject* result = nullptr;
  try {
    result = PyObject_CallObject(callable.ptr(), args.ptr());
  } catch (...) {
    Sleep();
  }
  if (!result) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}

void ThrowFromPython(const char* who, py::error_already_set error) {
  if (IsInterruption(error)) ThrowInterrupted(std::move(error));
  const std::string what = py::cast<std::string>(py::str(error.value()));
  if (error.matches(py::module_::import("opstep._core").attr("Error"))) {
    if (PyObject* cause = PyException_GetCause(error.value().ptr()))
      KeepCause(what, py::reinterpret_steal<py::object>(cause));
    throw Error(what);
  }
  std::string place;
  py::object trace = error.trace();
  while (trace && !trace.is_none()) {
    const py::object code = trace.attr("tb_frame").attr("f_code");
    const auto file = py::cast<std::string>(code.attr("co_filename"));
    place = Cat(" (", file.substr(file.find_last_of('/') + 1), ":",
                py::cast<int>(trace.attr("tb_lineno")), ")");
    trace = trace.attr("tb_next");
  }
  const std::string kind = py::cast<std::string>(error.type().attr("__name__"));
  const std::string sentence = Cat(who, " raised ", kind, what.empty() ? "" : ": ", what, place);
  KeepCause(sentence, error.value());
  throw Error(sentence);
}

}  // namespace opstep::python
