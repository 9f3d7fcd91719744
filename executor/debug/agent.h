// The debug agent of this process, as the bindings use it.
#pragma once

#include <string>
#include <vector>

#include "debug/expr/python_names.h"
#include "debug/plans/made_by.h"
#include "debug/taps/tap_limits.h"
#include "ir/program.h"

namespace opstep {

// The agent dials out to a debug server and, while one is attached, is the process's Hook. A
// process has at most one.

struct AgentOptions {
  // "unix:/path" or "host:port"; empty: only servers that ring the doorbell are dialled.
  std::string address;
  std::string token;              // empty: none
  std::string root_certificates;  // PEM; empty: no TLS
  std::string policy = "full";    // or "observe", "log-only"
  // How long the first run waits for the server, once.
  double wait_seconds = 0.2;
  // A thread that is stopped when the server goes away waits for the next server.
  bool wait_on_disconnect = false;
  // The longest time of a stop; 0 = no limit.
  double max_pause_seconds = 0;
  TapLimits taps;
  std::vector<std::string> argv;
  int rank = 0;
  std::string version;
};

// Starts dialling and returns at once; dials again whenever the server goes away.
void DebugConnect(AgentOptions options);
// Says goodbye; stopped threads go on. Takes at most about a second, and must be called without
// Python's lock. Nothing happens when there is no agent.
void DebugDisconnect();

struct AgentState {
  bool wanted = false;    // there is an agent, and it has not given up
  bool attached = false;  // somebody debugs this process
  std::string server;     // the connected server; empty when there is none
  std::string refused;    // why it gave up
  std::string policy;     // chosen by the program; empty when it did not choose
};
AgentState DebugState();

// A server at this unix socket wants to be dialled; `options` are used when there is no agent yet.
// Throws when another server is connected.
void DebugRing(const std::string& address, const AgentOptions& options);

// In a forked child, where the agent's threads do not exist: leaves the server to the parent. The
// child can be debugged only when its parent never was: gRPC does not live on in a child.
void DebugForgetAfterFork();

// Asks the connected server to set a tap, given as the JSON of a tap in taps.toml. Waits for its
// uid at most this long; without Python's lock. Throws when it cannot be set.
std::string DebugRequestTap(const std::string& text, double seconds);
// All taps of this process; none when it never had a server.
proto::TapStatuses DebugListTaps();
void DebugDropTap(const std::string& uid, const std::string& who);

// Reads the Python frames of the calling thread, innermost first. Called on a thread that stops.
using PythonStack = std::vector<SourceFrame> (*)();
void SetPythonStack(PythonStack read);
// Reads the names in one of those frames that hold variables and, on request, values of imperative
// mode.
struct PythonFrame {
  SourceFrame at;
  std::vector<PythonName> names;
};
using PythonNamesReader = PythonFrame (*)(size_t frame, bool values);
void SetPythonNames(PythonNamesReader read);
// Can a variable of one program be found by its name in the other, which was made from it?
using SameModel = bool (*)(uint32_t program, uint32_t other);
void SetSameModel(SameModel same);
bool IsSameModel(uint32_t program, uint32_t other);
// The calls that started an op of imperative mode, outermost first; empty for other runs. Called on
// the thread that runs it.
using RunCallsReader = const MadeBy& (*)();
void SetRunCalls(RunCallsReader read);

}  // namespace opstep
