// ActiveRun: how a run notices Ctrl-C.
#pragma once

#include "plan/plan.h"

namespace opstep {

// Marks a plan as running. While a run lasts, a ticker asks it about every 0.1 s, by a bit in its
// watch bytes, to check for an interruption: so Ctrl-C costs the loop nothing.
class ActiveRun {
 public:
  explicit ActiveRun(const Plan& plan);
  ~ActiveRun();
  ActiveRun(const ActiveRun&) = delete;

 private:
  friend class Ticker;
  const Plan& plan_;
  bool seen_ = false;
  // The ticker's list of runs, and how many forks it had seen.
  uint32_t forks_ = 0;
  ActiveRun* next_ = nullptr;
  ActiveRun** link_ = nullptr;
};

// The answer to the ticker: clears its bits and calls PollInterrupt.
void PollRun(const Plan& plan);

}  // namespace opstep
