// WaitPoll: the function that a source calls while it waits.
#pragma once

namespace opstep {

// A source that waits or reads for long calls it now and then on the thread that asked for data; it
// may throw to end that.
struct WaitPoll {
  void (*call)(void* context) = nullptr;
  void* context = nullptr;
};

// For this thread; returns the previous function.
WaitPoll SetWaitPoll(WaitPoll poll);
// For threads that have set none.
void SetDefaultWaitPoll(void (*poll)());
void PollWaiting();

}  // namespace opstep
