#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "debug.pb.h"

namespace opstep {

// What log points wrote and the server has not been sent yet. It is sent no more than a few
// messages ahead of what it has worked in, so that stops and replies never wait behind records.
// What does not fit is counted.
//
// Thread: one, from the first record to Close. It sends what has gathered for 20 ms, or sooner when
// that is much, and waits on its condition variable only.
class LogQueue {
 public:
  // `send` must not block.
  explicit LogQueue(std::function<void(proto::Logs&&)> send) : send_(std::move(send)) {}
  ~LogQueue() { Close(); }
  LogQueue(const LogQueue&) = delete;

  // Never waits for the server.
  void Add(proto::LogRecord record);
  // The server has worked in so many.
  void Taken(uint64_t records);
  // Sends what may be sent now, before something that must not overtake it.
  void Flush();
  // Forgets what was meant for a server that is gone.
  void Clear();
  // Gives the server a moment to take the rest, counts what is left as dropped, ends the thread.
  void Close();

 private:
  void Loop();
  // With the lock. False when the server is behind.
  bool Send();

  const std::function<void(proto::Logs&&)> send_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<proto::LogRecord> records_;
  size_t bytes_ = 0;
  uint64_t dropped_ = 0;
  uint64_t under_way_ = 0;  // records that were sent and not taken
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace opstep
