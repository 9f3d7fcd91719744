// TapSender: the thread that sends tap records to the debug server.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "debug/taps/tap_queue.h"

namespace opstep {

// Sends tap records to the debug server, a few batches ahead of its sinks, and counts the fate of
// each. While there is no server they wait in the queue.
//
// Thread: one, from the first record to Close. It sends the records of 200 ms, or sooner when there
// are many or somebody waits for them, and waits on its condition variable only.
class TapSender {
 public:
  // How messages get to the server; neither call may block. Null functions: no server.
  struct Stream {
    std::function<void(proto::FromExecutor&&)> send;
    std::function<size_t()> unsent;  // bytes that wait to be written
  };

  explicit TapSender(size_t queue_bytes) : queue_(queue_bytes) {}
  ~TapSender() { Close(std::chrono::milliseconds(0)); }
  TapSender(const TapSender&) = delete;

  // The largest extra that a record can have.
  size_t room() const { return queue_.room(); }
  // Counts the record, as produced and, when there is no room for it, as dropped. Never waits.
  void Add(TapRecord& record);

  // A server is connected. Records sent to an earlier server will never be confirmed.
  void Connect(Stream stream);
  void Disconnect();
  // It has reported what its sinks did with a batch.
  void Taken(const proto::TapsTaken& taken);
  // Sends all records and waits for their confirmation: as long as some are confirmed within each
  // `most`, and at most five times that. The others count as lost at the end of the process.
  // Returns their number and the batches that hold them.
  uint64_t Close(std::chrono::milliseconds most, std::vector<uint64_t>* batches = nullptr);

 private:
  // The records of each point in a batch, by batch number, until it is confirmed.
  struct Sent {
    uint64_t batch = 0;
    size_t records = 0, bytes = 0;
    std::unordered_map<uint32_t, std::pair<std::shared_ptr<TapCounters>, uint64_t>> of;
  };

  void Loop();
  bool MaySend() const;
  // With the lock held, but not while it writes pieces. False when nothing was sent.
  bool Send(std::unique_lock<std::mutex>& lock);
  void Count(std::atomic<uint64_t> TapCounters::*what);

  TapQueue queue_;
  std::atomic<bool> connected_{false};
  std::atomic<bool> asleep_{false};
  std::atomic<bool> started_{false};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
  Stream stream_;
  uint64_t epoch_ = 0;             // counts streams
  TapClock::time_point taken_at_;  // the server's last confirmation, or when Close began
  bool hurried_ = false;           // somebody waits for the records to be sent
  bool closing_ = false;
  std::atomic<bool> closed_{false};  // closed forever
  bool sending_ = false;             // pieces of a record
  uint64_t last_batch_ = 0;
  std::deque<Sent> under_way_;
  size_t records_ = 0, bytes_ = 0;     // under way
  std::unordered_set<uint32_t> told_;  // points that this stream knows
};

}  // namespace opstep
