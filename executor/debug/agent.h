#pragma once

#include <string>
#include <vector>

#include "ir/program.h"

namespace opstep {

// The debugger's foot in this process: it dials out to a debug server and, while one is attached,
// is the process's Hook. There is one at the most.

struct AgentOptions {
  std::string address;  // "unix:/path" or "host:port"
  // The first run waits so long for the server, once.
  double wait_seconds = 0.2;
  // A thread that is stopped when the server goes away waits for the next one instead of going on.
  bool wait_on_disconnect = false;
  // No stop lasts longer; 0 = no limit.
  double max_pause_seconds = 0;
  std::vector<std::string> argv;
  int rank = 0;
  std::string version;
};

// Starts dialling and returns at once; dials again whenever the server goes away.
void DebugConnect(AgentOptions options);
// Says goodbye; stopped threads go on. Takes at most about a second, and must be called without
// Python's lock. Nothing happens when there is no agent.
void DebugDisconnect();
// A server is attached now.
bool DebugAttached();
// In a forked child, where the agent's threads do not exist: leaves the server to the parent. Such
// a child cannot be debugged.
void DebugForgetAfterFork();

// Reads the Python frames of the calling thread, innermost first. Called on a thread that stops.
using PythonStack = std::vector<SourceFrame> (*)();
void SetPythonStack(PythonStack read);

}  // namespace opstep
