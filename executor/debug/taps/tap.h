// LiveTap: one tap as it is set now, its counters, and its points in a program.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "debug.pb.h"

namespace opstep {

using TapClock = std::chrono::steady_clock;

// The counts of a tap's records. `produced` is counted first, and each record then in exactly one
// of the others; a record in none of them still waits.
struct TapCounters {
  std::atomic<uint64_t> produced{0}, delivered{0}, queue_full{0}, disconnected{0}, rate{0},
      too_large{0}, sink{0}, unconfirmed{0}, at_exit{0};

  void Fill(const std::string& uid, proto::TapCounts* counts) const;
};

// One tap as it is set now. Setting it again with the same uid makes another LiveTap with the same
// counters. Runs use it without a lock; members that change are atomic or, where noted, guarded by
// the session's lock.
struct LiveTap {
  const proto::Tap spec;
  const std::string server;
  const std::shared_ptr<TapCounters> counters;
  const TapClock::time_point since;     // it was set
  const TapClock::time_point deadline;  // by its seconds or its date
  // It has ended for good; why is guarded by the session's lock.
  std::atomic<bool> ended{false};
  std::string why;
  // The condition failed: `failure` is written once, and never again.
  std::atomic<bool> failing{false}, failed{false};
  std::string failure;
  // Work since the last look at the limits.
  std::atomic<uint64_t> nanoseconds{0}, bytes{0};

  LiveTap(proto::Tap spec, std::string server, std::shared_ptr<TapCounters> counters,
          TapClock::time_point since);

  // Does it look at this run of a program? The answer is the same for each call.
  bool Due(uint64_t step) const;
  // May it make one more record now, by its rate? By its count?
  bool WithinRate(TapClock::time_point now);
  bool WithinCount();
  // Why it is over, by time or by count; "" while it is not.
  std::string Over(TapClock::time_point now) const;

 private:
  // For the rate: the due time of the next record at even intervals; nanoseconds of TapClock.
  std::atomic<int64_t> next_{0};
  std::atomic<uint64_t> made_{0};
};

// A value of an op that a tap looks at; records refer to it by number.
struct TapPoint {
  const std::shared_ptr<TapCounters> counters;
  proto::TapSource told;
  // The first run that reached it; 0: none yet.
  mutable std::atomic<uint64_t> first_step{0};
  // Is this run among the first ones, counted from that run?
  bool IsAmongFirst(uint64_t step, uint64_t first) const {
    uint64_t unset = 0;
    first_step.compare_exchange_strong(unset, step);
    return step - first_step.load() < first;
  }

  TapPoint(std::shared_ptr<TapCounters> counters, proto::TapSource told)
      : counters(std::move(counters)), told(std::move(told)) {}
};

}  // namespace opstep
