// ThreadState: one of the user's threads that runs plans under the debugger.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "debug.pb.h"
#include "debug/breakpoints/data_watch.h"
#include "debug/faults/fault_watch.h"
#include "debug/session/stepper.h"
#include "debug/taps/tap_runs.h"

namespace opstep {

struct ThreadState {
  uint32_t id = 0;
  std::string name;

  // Only this thread touches these.
  uint64_t run = 0;
  // An error is on its way up through the blocks; it was shown where it began.
  bool unwinding = false;
  FaultWatch faults;
  // What was in the variables of data breakpoints, by op and slot.
  std::map<std::pair<const Instruction*, uint32_t>, Content> contents;
  // The last stop of each line breakpoint: the entry into a block and a run of ops, as a number.
  std::unordered_map<uint32_t, uint64_t> fired;

  // Guarded by the session's lock.
  TapRuns::Thread taps;
  bool announced = false;
  Stepper stepper;
  bool pause = false;
  Position at;
  // The next of the frames that made the op is to be entered: no op runs for that.
  bool entering = false;
  bool stopped = false;
  bool released = false;
  proto::Stopped stop;                                   // its last report
  const Plan* plan = nullptr;                            // while it is stopped
  std::deque<std::pair<uint64_t, proto::Command>> jobs;  // with the epoch of the server that asked
  // The command that is being answered, 0 when none is, and whether it was given up.
  uint64_t answering = 0;
  std::atomic<bool> cancelled{false};
  std::condition_variable wake;
  // Rises with each Wake, for a thread that spins.
  std::atomic<uint32_t> signals{0};
  // The last stop was too short for a person: assume that a script is stepping.
  bool hurried = false;

  // Something that it waits for has changed.
  void Wake() {
    signals.fetch_add(1, std::memory_order_release);
    wake.notify_all();
  }
};

}  // namespace opstep
