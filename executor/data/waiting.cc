// The functions that a waiting source calls, for this thread and for others.
#include "data/waiting.h"

#include <atomic>
#include <utility>

namespace opstep {
namespace {

thread_local WaitPoll own;
std::atomic<void (*)()> others{nullptr};

}  // namespace

WaitPoll SetWaitPoll(WaitPoll poll) { return std::exchange(own, poll); }

void SetDefaultWaitPoll(void (*poll)()) { others = poll; }

void PollWaiting() {
  if (own.call != nullptr) return own.call(own.context);
  if (void (*poll)() = others.load()) poll();
}

}  // namespace opstep
