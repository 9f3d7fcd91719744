// Session, a stopped thread: it answers questions on its own stack until it may go on.
#include <thread>

#include "debug/session/session.h"

namespace opstep {
namespace {

using Clock = std::chrono::steady_clock;

// A shorter stop was not meant for a person. The thread then spins through the next stop, because
// waking it takes half as long as such a step.
constexpr std::chrono::microseconds kHurry{1500};

void StayAwake(const std::atomic<uint32_t>& signals, uint32_t seen, Clock::time_point until) {
  while (signals.load(std::memory_order_acquire) == seen && Clock::now() < until) {
    for (int i = 0; i < 20; ++i) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    std::this_thread::yield();  // the thread that it waits for may need this core
  }
}

}  // namespace

void Session::Wait(Lock& lock, ThreadState& thread, FrameEditor& frame) {
  const Clock::time_point since = Clock::now();
  // A time that cannot be counted in microseconds counts as forever.
  const Clock::time_point latest =
      options_.max_pause_seconds > 0 && options_.max_pause_seconds < 1e9
          ? since +
                std::chrono::microseconds(static_cast<int64_t>(options_.max_pause_seconds * 1e6))
          : Clock::time_point::max();
  Clock::time_point poll = since + std::chrono::milliseconds(100);
  uint32_t signals = thread.signals;
  ReadAhead ahead;
  const auto leave = [&](const std::string& by_itself) {
    thread.stopped = false;
    thread.plan = nullptr;
    thread.hurried = Clock::now() < since + kHurry;
    for (auto& [epoch, command] : thread.jobs) {
      if (epoch == epoch_)
        Answer(ErrorReply(command.id(), Cat("thread ", thread.id, " has gone on")));
    }
    thread.jobs.clear();
    if (by_itself.empty() || !attached_) return;
    DisarmIfIdle();
    proto::FromExecutor message;
    message.mutable_continued()->set_thread(thread.id);
    message.mutable_continued()->set_by_itself(true);
    message.mutable_continued()->set_message(by_itself);
    channel_->Send(std::move(message));
  };
  try {
    while (true) {
      if (!thread.jobs.empty()) {
        const auto [epoch, command] = std::move(thread.jobs.front());
        thread.jobs.pop_front();
        thread.answering = epoch == epoch_ ? command.id() : 0;
        thread.cancelled = false;
        const auto told = static_cast<uint32_t>(thread.stop.frames_size());
        lock.unlock();
        proto::Reply reply =
            AnswerStopped(command, {frame, thread.at, told, thread.cancelled}, ahead);
        lock.lock();
        thread.answering = 0;
        if (epoch == epoch_ && connected_) Answer(std::move(reply));
        continue;
      }
      if (thread.released) return leave("");
      if (Clock::now() >= latest) {
        return leave(
            Cat("went on after the longest pause allowed, ", options_.max_pause_seconds, " s"));
      }
      if (thread.hurried && Clock::now() < since + kHurry) {
        lock.unlock();
        StayAwake(thread.signals, signals, since + kHurry);
        lock.lock();
        signals = thread.signals;
        continue;
      }
      thread.wake.wait_until(lock, std::min(poll, latest));
      if (Clock::now() < poll) continue;
      poll = Clock::now() + std::chrono::milliseconds(100);
      lock.unlock();
      PollInterrupt();
      lock.lock();
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    leave("the program was interrupted");
    throw;
  }
}

}  // namespace opstep
