// The debug agent of this process.
#include <pybind11/stl.h>

#include "debug/agent.h"
#include "debug/wire/doorbell.h"
#include "opstep/bindings/bindings.h"

namespace opstep::python {
namespace {

// Called by the agent on a thread that stops and has released the GIL for its run.
std::vector<SourceFrame> ReadStack() {
  if (Finalizing()) return {};
  py::gil_scoped_acquire gil;
  return UserStack();
}

}  // namespace

void BindDebug(py::module_& m) {
  SetPythonStack(&ReadStack);
  py::class_<TapLimits>(m, "TapLimits")
      .def(py::init())
      .def_readwrite("allowed", &TapLimits::allowed)
      .def_readwrite("full_tensors", &TapLimits::full_tensors)
      .def_readwrite("cpu_share", &TapLimits::cpu_share)
      .def_readwrite("bytes_per_second", &TapLimits::bytes_per_second)
      .def_readwrite("queue_bytes", &TapLimits::queue_bytes)
      .def_readwrite("audit_file", &TapLimits::audit_file);
  py::class_<AgentOptions>(m, "AgentOptions")
      .def(py::init())
      .def_readwrite("address", &AgentOptions::address)
      .def_readwrite("token", &AgentOptions::token)
      .def_readwrite("root_certificates", &AgentOptions::root_certificates)
      .def_readwrite("policy", &AgentOptions::policy)
      .def_readwrite("wait", &AgentOptions::wait_seconds)
      .def_readwrite("wait_on_disconnect", &AgentOptions::wait_on_disconnect)
      .def_readwrite("max_pause", &AgentOptions::max_pause_seconds)
      .def_readwrite("taps", &AgentOptions::taps)
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
  m.def(
      "debug_tap_request", &DebugRequestTap, py::call_guard<WithoutGil>(),
      "Asks the server to set a tap, given as JSON like a tap in taps.toml, and returns its uid.");
  m.def("debug_tap_drop", &DebugDropTap, py::call_guard<WithoutGil>());
  m.def(
      "debug_taps",
      [] {
        proto::TapStatuses taps;
        {
          const WithoutGil unlocked;
          taps = DebugListTaps();
        }
        py::list all;
        for (const proto::TapStatus& tap : taps.statuses()) {
          const proto::TapCounts& n = tap.counts();
          py::dict counts;
          counts["produced"] = n.produced();
          counts["delivered"] = n.delivered();
          counts["waiting"] = n.waiting();
          counts["queue_full"] = n.queue_full();
          counts["disconnected"] = n.disconnected();
          counts["rate"] = n.rate();
          counts["too_large"] = n.too_large();
          counts["sink"] = n.sink();
          counts["unconfirmed"] = n.unconfirmed();
          counts["at_exit"] = n.at_exit();
          py::dict each;
          each["uid"] = tap.uid();
          each["name"] = tap.name();
          each["who"] = tap.who();
          each["ops"] = tap.op_count();
          each["message"] = tap.message();
          each["ended"] = tap.ended();
          each["counts"] = counts;
          all.append(each);
        }
        return all;
      },
      "The taps of this process, and the counts of their records.");
  m.def("debug_forget_after_fork", [] {
    DebugForgetAfterFork();
    DoorbellForgetAfterFork();
  });
  m.def("doorbell_open", &DoorbellOpen, py::call_guard<WithoutGil>());
  m.def("doorbell_close", &DoorbellClose, py::call_guard<WithoutGil>());
}

}  // namespace opstep::python
