// TapQueue: records on their way from the threads that run to the sender.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/summary.h"
#include "debug/taps/tap.h"

namespace opstep {

struct TapRecord {
  std::shared_ptr<const TapPoint> point;
  uint64_t step = 0, iteration = 0, time = 0;
  uint32_t thread = 0;
  Summary statistics;  // count 0: none
  std::unique_ptr<proto::TapExtra> extra;
  size_t bytes = 0;  // of the extra
};

// Records on their way from runs to the sender, in a ring of a fixed size. Any number of threads
// may push and pop; none ever waits for another (each cell has a turn number that says whether it
// is free or full in this round).
class TapQueue {
 public:
  // Cells and the records' extras together take no more than this.
  explicit TapQueue(size_t most_bytes);
  ~TapQueue();
  TapQueue(const TapQueue&) = delete;

  // The largest extra that can ever fit.
  size_t room() const { return room_; }
  // False, and the record unchanged, when there is no room.
  bool Push(TapRecord& record);
  // The room of its extra stays taken until Free.
  bool Pop(TapRecord* record);
  void Free(size_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  bool empty() const;
  // An eighth of it is taken, or more.
  bool filling() const;

 private:
  struct Cell {
    std::atomic<size_t> turn;
    TapRecord record;
  };

  size_t room_ = 0;
  size_t mask_ = 0;
  std::unique_ptr<Cell[]> cells_;
  alignas(64) std::atomic<size_t> head_{0};
  alignas(64) std::atomic<size_t> tail_{0};
  alignas(64) std::atomic<size_t> used_{0};
};

}  // namespace opstep
