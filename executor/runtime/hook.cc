// The process's hook: setting and finding it.
#include "runtime/hook.h"

#include <pthread.h>

#include <mutex>

#include "runtime/hook_state.h"

namespace opstep {
namespace {

std::mutex& HookMutex() {
  // A thread that held it while another thread forked would hold it forever in the child.
  static std::mutex* mutex = [] {
    pthread_atfork([] { HookMutex().lock(); }, [] { HookMutex().unlock(); },
                   [] { HookMutex().unlock(); });
    return new std::mutex;
  }();
  return *mutex;
}

std::shared_ptr<Hook>& TheHook() {
  static auto* hook = new std::shared_ptr<Hook>;
  return *hook;
}

std::atomic<void (*)()> interrupt_poll{nullptr};

}  // namespace

std::atomic<uint64_t> hook_epoch{0};
std::atomic<bool> hook_there{false};
thread_local constinit bool unwatched_runs = false;

void SetHook(std::shared_ptr<Hook> hook) {
  std::shared_ptr<Hook> old;
  {
    const std::lock_guard lock(HookMutex());
    old = std::exchange(TheHook(), std::move(hook));
    hook_there.store(TheHook() != nullptr, std::memory_order_relaxed);
    hook_epoch.fetch_add(1, std::memory_order_release);
  }
}

std::shared_ptr<Hook> CurrentHook() {
  const std::lock_guard lock(HookMutex());
  return TheHook();
}

void SetInterruptPoll(void (*poll)()) { interrupt_poll = poll; }

void PollInterrupt() {
  if (void (*poll)() = interrupt_poll.load()) poll();
}

}  // namespace opstep
