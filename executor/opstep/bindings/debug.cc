// The agent: the debugger's foot in this process.
#include <pybind11/stl.h>

#include "debug/agent.h"
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
  m.def(
      "debug_connect",
      [](std::string address, double wait, bool wait_on_disconnect, double max_pause,
         std::vector<std::string> argv, int rank, std::string version) {
        const WithoutGil released;
        DebugConnect({.address = std::move(address),
                      .wait_seconds = wait,
                      .wait_on_disconnect = wait_on_disconnect,
                      .max_pause_seconds = max_pause,
                      .argv = std::move(argv),
                      .rank = rank,
                      .version = std::move(version)});
      },
      py::kw_only(), py::arg("address"), py::arg("wait"), py::arg("wait_on_disconnect"),
      py::arg("max_pause"), py::arg("argv"), py::arg("rank"), py::arg("version"));
  m.def("debug_disconnect", &DebugDisconnect, py::call_guard<WithoutGil>());
  m.def("debug_attached", &DebugAttached);
  m.def("debug_forget_after_fork", &DebugForgetAfterFork);
}

}  // namespace opstep::python
