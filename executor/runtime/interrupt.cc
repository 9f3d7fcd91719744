// The ticker thread, which lets runs notice Ctrl-C.
#include "runtime/interrupt.h"

#include <pthread.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "runtime/frame.h"
#include "runtime/hook.h"

namespace opstep {
namespace {

using namespace std::chrono_literals;

void ForEach(const Plan& plan, void (*change)(std::atomic<uint8_t>&)) {
  for (const BlockPlan& block : plan.blocks) {
    for (const Instruction& instruction : block.code) change(instruction.watch);
  }
}

}  // namespace

// One thread, which exists only while there are runs: it sleeps 0.1 s at a time, blocks only on
// `mutex_`, and ends by itself after a second without runs. Never destroyed, so that a run on
// another thread at process exit finds it intact.
class Ticker {
 public:
  static Ticker& Get() {
    static Ticker* ticker = new Ticker;
    return *ticker;
  }

  void Add(ActiveRun& run) {
    const std::lock_guard lock(mutex_);
    run.forks_ = forks_;
    run.next_ = runs_;
    run.link_ = &runs_;
    if (runs_) runs_->link_ = &run.next_;
    runs_ = &run;
    if (alive_) return;
    alive_ = true;
    std::thread([this] { Loop(); }).detach();
  }

  void Remove(ActiveRun& run) {
    const std::lock_guard lock(mutex_);
    if (run.forks_ != forks_) return;
    *run.link_ = run.next_;
    if (run.next_) run.next_->link_ = run.link_;
  }

 private:
  Ticker() {
    // The child of a fork has no ticker thread, and list entries may be on the stacks of threads
    // that it does not have.
    pthread_atfork([] { Get().mutex_.lock(); }, [] { Get().mutex_.unlock(); },
                   [] {
                     Get().runs_ = nullptr;
                     ++Get().forks_;
                     Get().alive_ = false;
                     Get().mutex_.unlock();
                   });
  }

  void Loop() {
    for (int idle = 0;;) {
      std::this_thread::sleep_for(100ms);
      const std::lock_guard lock(mutex_);
      idle = runs_ == nullptr ? idle + 1 : 0;
      if (idle == 10) {
        alive_ = false;
        return;
      }
      for (ActiveRun* run = runs_; run != nullptr; run = run->next_) {
        // A run that has just begun is not checked yet.
        if (run->seen_)
          ForEach(run->plan_,
                  [](auto& watch) { watch.fetch_or(watch::kPoll, std::memory_order_relaxed); });
        run->seen_ = true;
      }
    }
  }

  std::mutex mutex_;
  ActiveRun* runs_ = nullptr;
  uint32_t forks_ = 0;
  bool alive_ = false;
};

ActiveRun::ActiveRun(const Plan& plan) : plan_(plan) { Ticker::Get().Add(*this); }
ActiveRun::~ActiveRun() { Ticker::Get().Remove(*this); }

void PollRun(const Plan& plan) {
  ForEach(plan, [](auto& watch) {
    watch.fetch_and(static_cast<uint8_t>(~watch::kPoll), std::memory_order_relaxed);
  });
  PollInterrupt();
}

void Frame::PollHere() {
  try {
    PollRun(*plan_);
  } catch (const Interrupted&) {
    if (held_ == 0 || interrupted_) throw;
    interrupted_ = true;
  }
}

void Frame::Poll() {
  // An inner loop: the outer iteration is not over.
  const bool inner = held_ > 1;
  if (interrupted_ && !inner) {
    interrupted_ = false;
    throw Interrupted();
  }
  // The check may wait for the calling language.
  const auto now = std::chrono::steady_clock::now();
  if (now - polled_ < 50ms) return;
  polled_ = now;
  if (inner) {
    PollHere();
  } else {
    PollInterrupt();
  }
}

void Frame::HoldInterrupts(bool held) {
  held_ += held ? 1 : -1;
  // The run ends in another way.
  if (held_ == 0) interrupted_ = false;
}

}  // namespace opstep
