// C++ errors become opstep.Error; Ctrl-C during a run becomes the exception that Python raised for
// it.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "base/error.h"
#include "opstep/bindings/bindings.h"
#include "runtime/hook.h"
#include "runtime/scope.h"

namespace opstep::python {
namespace {

// Only the main thread handles signals: no other thread need wait for the GIL.
std::atomic<pthread_t> main_thread;

// From the poll that saw the signal to the translator that raises it, on one thread. Only a
// pointer: an object that is still here when Python ends must not be freed.
thread_local py::error_already_set* pending = nullptr;

void Keep(py::error_already_set error) {
  delete pending;
  pending = new py::error_already_set(std::move(error));
}

// The exception of Python code inside a run, and the sentence that reports it. A pointer for the
// same reason.
struct Cause {
  std::string sentence;
  py::object error;
};
thread_local Cause* cause = nullptr;

void Raise(const py::object& type, const Error& error) {
  const py::object made = type(error.what());
  if (cause && std::string_view(error.what()).find(cause->sentence) != std::string_view::npos)
    PyException_SetCause(made.ptr(), cause->error.release().ptr());
  delete std::exchange(cause, nullptr);
  PyErr_SetObject(type.ptr(), made.ptr());
}

bool OnMainThread() { return pthread_self() == main_thread.load(std::memory_order_relaxed); }

void PollSignals() {
  if (!OnMainThread() || Finalizing()) return;
  py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() == 0) return;
  Keep(py::error_already_set());
  throw Interrupted();
}

void Translate(std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const Interrupted&) {
    if (pending) {
      pending->restore();
      delete std::exchange(pending, nullptr);
    } else {
      PyErr_SetNone(PyExc_KeyboardInterrupt);
    }
  }
}

}  // namespace

bool IsInterruption(const py::error_already_set& error) {
  return OnMainThread() && !error.matches(PyExc_Exception);
}

void ThrowInterrupted(py::error_already_set error) {
  Keep(std::move(error));
  throw Interrupted();
}

void KeepCause(std::string sentence, py::object error) {
  delete cause;
  cause = new Cause{std::move(sentence), std::move(error)};
}

bool Finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing();
#else
  return _Py_IsFinalizing();
#endif
}

WithoutGil::~WithoutGil() {
  // The second case: the interpreter begins to end while the thread waits for the GIL.
  if (!Finalizing()) {
    try {
      PyEval_RestoreThread(state_);
      return;
    } catch (...) {
      while (true) ::pause();
    }
  }
  while (true) ::pause();
}

void BindErrors(py::module_& m) {
  // Leaked: it must not be released after the interpreter has ended.
  static auto& error = *new py::exception<Error>(m, "Error");
  error.attr("__module__") = "opstep";
  static auto& foreign = *new py::exception<ForeignValue>(m, "ForeignValue", error);
  error.attr("__doc__") = "What went wrong, where, and what to do, in one sentence.";
  py::register_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const ForeignValue& e) {
      Raise(foreign, e);
    } catch (const Error& e) {
      Raise(error, e);
    }
  });
  py::register_exception_translator(&Translate);
  // Called at import and, in the child, after a fork. Python's ident of a thread is its pthread_t.
  m.def("set_main_thread", [](pthread_t ident) { main_thread.store(ident); });
  SetInterruptPoll(&PollSignals);
}

}  // namespace opstep::python
