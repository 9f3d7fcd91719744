// Which call of a Python function made an op, and which execution of its line. Needs the GIL.
#pragma once

#include <vector>

#include "debug/plans/made_by.h"
#include "opstep/bindings/frames/frames.h"

namespace opstep::python {

// The calls and visits of the user's frames, outermost first, as this thread is in them now. The
// numbers are unique in the process.
void LiveCalls(std::vector<CallVisit>& calls);

// While it lives, the thread's run knows the calls that started it.
class RunCalls {
 public:
  RunCalls();
  ~RunCalls();
  RunCalls(const RunCalls&) = delete;

 private:
  std::vector<CallVisit> before_;
};

}  // namespace opstep::python
