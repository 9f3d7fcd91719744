// TapQueue: a ring without locks.
#include "debug/taps/tap_queue.h"

#include <algorithm>
#include <bit>

namespace opstep {

TapQueue::TapQueue(size_t most_bytes) {
  const size_t cells =
      std::bit_floor(std::clamp<size_t>(most_bytes / 2 / sizeof(Cell), 64, size_t{1} << 16));
  room_ = most_bytes - std::min(most_bytes, cells * sizeof(Cell));
  mask_ = cells - 1;
  cells_ = std::make_unique<Cell[]>(cells);
  for (size_t i = 0; i < cells; ++i) cells_[i].turn.store(i, std::memory_order_relaxed);
}

TapQueue::~TapQueue() = default;

bool TapQueue::Push(TapRecord& record) {
  if (record.bytes > 0 &&
      used_.fetch_add(record.bytes, std::memory_order_relaxed) + record.bytes > room_) {
    used_.fetch_sub(record.bytes, std::memory_order_relaxed);
    return false;
  }
  size_t at = tail_.load(std::memory_order_relaxed);
  while (true) {
    Cell& cell = cells_[at & mask_];
    const size_t turn = cell.turn.load(std::memory_order_acquire);
    if (turn == at) {
      if (!tail_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) continue;
      cell.record = std::move(record);
      cell.turn.store(at + 1, std::memory_order_release);
      return true;
    }
    if (turn < at) {  // the value of the last round is still there
      used_.fetch_sub(record.bytes, std::memory_order_relaxed);
      return false;
    }
    at = tail_.load(std::memory_order_relaxed);
  }
}

bool TapQueue::Pop(TapRecord* record) {
  size_t at = head_.load(std::memory_order_relaxed);
  while (true) {
    Cell& cell = cells_[at & mask_];
    const size_t turn = cell.turn.load(std::memory_order_acquire);
    if (turn == at + 1) {
      if (!head_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) continue;
      *record = std::move(cell.record);
      cell.turn.store(at + mask_ + 1, std::memory_order_release);
      return true;
    }
    if (turn < at + 1) return false;
    at = head_.load(std::memory_order_relaxed);
  }
}

bool TapQueue::empty() const {
  return head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_acquire);
}

bool TapQueue::filling() const {
  const size_t cells =
      tail_.load(std::memory_order_relaxed) - head_.load(std::memory_order_relaxed);
  return cells > mask_ / 8 || used_.load(std::memory_order_relaxed) > room_ / 8;
}

}  // namespace opstep
