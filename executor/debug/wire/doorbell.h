// The doorbell: a socket by which a debug server asks this process to dial it.
#pragma once

#include "debug/agent.h"

namespace opstep {

// It is for debuggers of the same user and needs no preparation. The socket is named by the
// process id and lies in $XDG_RUNTIME_DIR/opstep or /tmp/opstep-<uid>, which nobody else can enter.
// A caller sends one line and gets one JSON object:
//   who               {"pid": 71, "argv": ["train.py"], "policy": "full", "attached": false,
//                      "server": ""}
//   ring unix:/path   {} or {"error": "one sentence"}
//
// Thread: one, the bell. It blocks in poll, for at most a second on one caller, and takes neither
// Python's lock nor one that a run holds for long. DoorbellClose wakes and joins it.

// Opens it once; `options` are for an agent started by a ring. Without a place for the socket there
// is no doorbell, and nothing else changes.
void DoorbellOpen(AgentOptions options);
void DoorbellClose();
// In a forked child: the parent keeps its socket. The child's own opens at its first run.
void DoorbellForgetAfterFork();
// Called at the start of a run; costs a load.
void DoorbellAfterFork();

}  // namespace opstep
