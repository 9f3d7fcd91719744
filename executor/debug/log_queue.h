#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "debug.pb.h"

namespace opstep {

// What log points wrote and the stream has not taken yet. What does not fit is counted.
//
// Thread: one, from the first record to Close. It sends what has gathered for 20 ms, or sooner when
// that is much, and waits on its condition variable only.
class LogQueue {
 public:
  // Neither may block. `room`: does the stream take another message now?
  LogQueue(std::function<bool()> room, std::function<void(proto::Logs&&)> send)
      : room_(std::move(room)), send_(std::move(send)) {}
  ~LogQueue() { Close(); }
  LogQueue(const LogQueue&) = delete;

  // Never waits for the stream.
  void Add(proto::LogRecord record);
  // Sends what the stream takes now, before something that must not overtake it.
  void Flush();
  // Forgets what was meant for a server that is gone.
  void Clear();
  // Sends what the stream takes, counts the rest as dropped, and ends the thread.
  void Close();

 private:
  void Loop();
  // With the lock. False when the stream has no room for all.
  bool Send();

  const std::function<bool()> room_;
  const std::function<void(proto::Logs&&)> send_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<proto::LogRecord> records_;
  size_t bytes_ = 0;
  uint64_t dropped_ = 0;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace opstep
