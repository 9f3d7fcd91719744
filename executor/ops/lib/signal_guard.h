// Holds back signals of a thread while oneDNN computes.
#pragma once

#include <csignal>

namespace opstep {

// Holds back signals for this thread during a call into oneDNN: its products of matrices point the
// stack register into the heap, where the kernel would write the frame of a signal's handler.
class SignalGuard {
 public:
  SignalGuard() {
    sigset_t held;
    sigfillset(&held);
    // Signals for errors of the thread itself.
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&held, own);
    pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~SignalGuard() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalGuard(const SignalGuard&) = delete;

 private:
  sigset_t before_;
};

}  // namespace opstep
