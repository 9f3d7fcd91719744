// LogQueue: sending, dropping and counting the records of log points.
#include "debug/breakpoints/log_queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace opstep {
namespace {

constexpr std::chrono::milliseconds kGather{20};
constexpr std::chrono::milliseconds kLast{500};
// With this much queued the sender does not wait; also the most that one message holds.
constexpr size_t kMuch = 128 << 10;
constexpr size_t kMuchRecords = 2000;
constexpr size_t kMostQueuedBytes = 8 << 20;
// Of records under way.
constexpr uint64_t kAhead = 4000;

}  // namespace

void LogQueue::Add(proto::LogRecord record) {
  const size_t size = record.ByteSizeLong();
  std::lock_guard lock(mutex_);
  unsettled_.store(true, std::memory_order_relaxed);
  if (bytes_ + size > kMostQueuedBytes) {
    Drop(record);
    return;
  }
  bytes_ += size;
  records_.push_back(std::move(record));
  // While the queue closes, only Close may touch the thread.
  if (!closing_ && !thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  if (records_.size() == 1 || bytes_ >= kMuch) changed_.notify_all();
}

void LogQueue::Taken(uint64_t records) {
  {
    std::lock_guard lock(mutex_);
    do {
      if (sent_.empty() || (records == 0 && sent_.front().records > 0)) break;
      const uint64_t taken = sent_.front().records;
      sent_.pop_front();
      under_way_ -= taken;
      records -= std::min(records, taken);
    } while (records > 0);
    if (Empty()) behind_ = false;
  }
  changed_.notify_all();
}

void LogQueue::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closing_ || (!records_.empty() && under_way_ < kAhead); });
    changed_.wait_for(lock, kGather, [&] { return closing_ || bytes_ >= kMuch; });
    if (closing_) return;
    Send();
  }
}

bool LogQueue::Send() {
  while (!records_.empty() || !dropped_.empty()) {
    if (under_way_ >= kAhead) return false;
    proto::Logs logs;
    size_t taken = 0;
    while (!records_.empty() && taken < kMuch &&
           logs.records_size() < static_cast<int>(kMuchRecords)) {
      taken += records_.front().ByteSizeLong();
      *logs.add_records() = std::move(records_.front());
      records_.pop_front();
    }
    bytes_ -= taken;
    Deliver(std::move(logs));
  }
  return true;
}

void LogQueue::SendRest() {
  for (const proto::LogRecord& record : records_) Drop(record);
  records_.clear();
  bytes_ = 0;
  if (!dropped_.empty()) Deliver({});
}

void LogQueue::Deliver(proto::Logs logs) {
  uint64_t dropped = 0;
  for (const auto& [breakpoint, count] : std::exchange(dropped_, {})) {
    (*logs.mutable_dropped_by())[breakpoint] = count;
    dropped += count;
  }
  logs.set_dropped(dropped);
  const auto records = static_cast<uint64_t>(logs.records_size());
  if (!send_(std::move(logs))) {
    unsent_ += records + dropped;
    return;
  }
  sent_.push_back({records, dropped});
  under_way_ += records;
}

void LogQueue::Flush() {
  std::lock_guard lock(mutex_);
  Send();
}

void LogQueue::Settle() {
  if (!unsettled_.load(std::memory_order_relaxed)) return;
  std::unique_lock lock(mutex_);
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::duration_cast<std::chrono::steady_clock::duration>(patience_);
  while (true) {
    Send();
    if (Empty()) {
      unsettled_.store(false, std::memory_order_relaxed);
      return;
    }
    if (behind_ || closing_) return;
    behind_ = changed_.wait_until(lock, until) == std::cv_status::timeout;
  }
}

void LogQueue::Finish() {
  std::lock_guard lock(mutex_);
  if (!Send()) SendRest();
}

uint64_t LogQueue::Clear() {
  std::lock_guard lock(mutex_);
  uint64_t lost = records_.size() + unsent_;
  for (const Sent& sent : sent_) lost += sent.records + sent.dropped;
  for (const auto& [breakpoint, count] : dropped_) lost += count;
  records_.clear();
  dropped_.clear();
  sent_.clear();
  bytes_ = 0;
  under_way_ = unsent_ = 0;
  behind_ = false;
  changed_.notify_all();
  return lost;
}

void LogQueue::Close() {
  {
    std::unique_lock lock(mutex_);
    const auto until = std::chrono::steady_clock::now() + kLast;
    while (!Send()) {
      if (changed_.wait_until(lock, until) == std::cv_status::no_timeout) continue;
      SendRest();
    }
    closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  std::lock_guard lock(mutex_);
  closing_ = false;
}

}  // namespace opstep
