// The agent: the debugger's foot in this process.
#include <pybind11/stl.h>

#include "debug/agent.h"
#include "debug/doorbell.h"
#include "opstep/bindings/bindings.h"

namespace opstep::python {
namespace {

// Called by the agent on a thread that stops, which has given up the GIL for its run.
std::vector<SourceFrame> ReadStack() {
  if (Finalizing()) return {};
  py::gil_scoped_acquire gil;
  return UserStack();
}

}  // namespace

void BindDebug(py::module_& m) {
  SetPythonStack(&ReadStack);
  py::class_<AgentOptions>(m, "AgentOptions")
      .def(py::init())
      .def_readwrite("address", &AgentOptions::address)
      .def_readwrite("token", &AgentOptions::token)
      .def_readwrite("root_certificates", &AgentOptions::root_certificates)
      .def_readwrite("policy", &AgentOptions::policy)
      .def_readwrite("wait", &AgentOptions::wait_seconds)
      .def_readwrite("wait_on_disconnect", &AgentOptions::wait_on_disconnect)
      .def_readwrite("max_pause", &AgentOptions::max_pause_seconds)
      .def_readwrite("argv", &AgentOptions::argv)
      .def_readwrite("rank", &AgentOptions::rank)
      .def_readwrite("version", &AgentOptions::version);
  py::class_<AgentState>(m, "AgentState")
      .def_readonly("wanted", &AgentState::wanted)
      .def_readonly("attached", &AgentState::attached)
      .def_readonly("server", &AgentState::server)
      .def_readonly("refused", &AgentState::refused);
  m.def("debug_connect", &DebugConnect, py::call_guard<WithoutGil>());
  m.def("debug_disconnect", &DebugDisconnect, py::call_guard<WithoutGil>());
  m.def("debug_state", &DebugState, py::call_guard<WithoutGil>());
  m.def("debug_forget_after_fork", [] {
    DebugForgetAfterFork();
    DoorbellForgetAfterFork();
  });
  m.def("doorbell_open", &DoorbellOpen, py::call_guard<WithoutGil>());
  m.def("doorbell_close", &DoorbellClose, py::call_guard<WithoutGil>());
}

}  // namespace opstep::python
