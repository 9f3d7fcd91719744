// LogQueue: records of log points on their way to the server.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "debug.pb.h"

namespace opstep {

// Records that log points wrote and that are not sent yet. At most a few messages are sent ahead of
// what the server has processed, so that stops and replies never wait behind records. Records that
// do not fit are counted for their breakpoint, and the count is sent with the records.
//
// Thread: one, from the first record to Close. It sends the records of 20 ms, or sooner when there
// are many, and waits on its condition variable only.
class LogQueue {
 public:
  // `send` must not block; false when the message goes nowhere. `patience`: the longest time that
  // Settle waits.
  explicit LogQueue(std::function<bool(proto::Logs&&)> send,
                    std::chrono::duration<double> patience = std::chrono::milliseconds(200))
      : send_(std::move(send)), patience_(patience) {}
  ~LogQueue() { Close(); }
  LogQueue(const LogQueue&) = delete;

  // Never waits for the server.
  void Add(proto::LogRecord record);
  // The server has processed a message with this many records.
  void Taken(uint64_t records);
  // Sends what may be sent now, before a message that must not overtake it.
  void Flush();
  // At the end of a run: waits until the server has processed all records, so that the
  // program's next output cannot overtake them. Does not wait for a server that was too slow
  // before, until it has caught up.
  void Settle();
  // Sends the rest as a count of what is dropped, for a server that leaves in order.
  void Finish();
  // Forgets the records for a server that is gone; returns how many it may not have received.
  uint64_t Clear();
  // Gives the server a moment to take the rest, counts what is left as dropped, ends the thread.
  void Close();

 private:
  void Loop();
  // The rest with the lock. False when the server is behind.
  bool Send();
  void SendRest();
  bool Empty() const { return records_.empty() && dropped_.empty() && sent_.empty(); }
  void Deliver(proto::Logs logs);
  void Drop(const proto::LogRecord& record) { ++dropped_[record.breakpoint()]; }

  const std::function<bool(proto::Logs&&)> send_;
  const std::chrono::duration<double> patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<proto::LogRecord> records_;
  size_t bytes_ = 0;
  std::map<uint32_t, uint64_t> dropped_;  // by breakpoint, since the last message
  // Messages that were sent and not confirmed: their records, and the drops that they report.
  struct Sent {
    uint64_t records, dropped;
  };
  std::deque<Sent> sent_;
  uint64_t under_way_ = 0;  // records in `sent_`
  uint64_t unsent_ = 0;     // records and drops of messages that went nowhere
  bool closing_ = false;
  bool behind_ = false;  // waiting for the server failed
  std::atomic<bool> unsettled_{false};
  std::thread thread_;
};

}  // namespace opstep
