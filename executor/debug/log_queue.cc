#include "debug/log_queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace opstep {
namespace {

constexpr std::chrono::milliseconds kGather{20};
constexpr std::chrono::milliseconds kLast{500};
// Not waited for when it is that much; also the most that one message holds.
constexpr size_t kMuch = 128 << 10;
constexpr size_t kMuchRecords = 2000;
constexpr size_t kMostBytes = 8 << 20;
// Of records under way.
constexpr uint64_t kAhead = 4000;

}  // namespace

void LogQueue::Add(proto::LogRecord record) {
  const size_t size = record.ByteSizeLong();
  std::lock_guard lock(mutex_);
  if (bytes_ + size > kMostBytes) {
    ++dropped_;
    return;
  }
  bytes_ += size;
  records_.push_back(std::move(record));
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  if (records_.size() == 1 || bytes_ >= kMuch) changed_.notify_all();
}

void LogQueue::Taken(uint64_t records) {
  {
    std::lock_guard lock(mutex_);
    under_way_ -= std::min(records, under_way_);
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
  while (!records_.empty() || dropped_) {
    if (under_way_ >= kAhead) return false;
    proto::Logs logs;
    logs.set_dropped(std::exchange(dropped_, 0));
    size_t taken = 0;
    while (!records_.empty() && taken < kMuch &&
           logs.records_size() < static_cast<int>(kMuchRecords)) {
      taken += records_.front().ByteSizeLong();
      *logs.add_records() = std::move(records_.front());
      records_.pop_front();
    }
    bytes_ -= taken;
    under_way_ += static_cast<uint64_t>(logs.records_size());
    send_(std::move(logs));
  }
  return true;
}

void LogQueue::Flush() {
  std::lock_guard lock(mutex_);
  Send();
}

void LogQueue::Clear() {
  std::lock_guard lock(mutex_);
  records_.clear();
  bytes_ = 0;
  dropped_ = under_way_ = 0;
}

void LogQueue::Close() {
  {
    std::unique_lock lock(mutex_);
    const auto until = std::chrono::steady_clock::now() + kLast;
    while (!Send()) {
      if (changed_.wait_until(lock, until) == std::cv_status::no_timeout) continue;
      proto::Logs rest;
      rest.set_dropped(dropped_ + records_.size());
      records_.clear();
      bytes_ = dropped_ = 0;
      send_(std::move(rest));
    }
    closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  std::lock_guard lock(mutex_);
  closing_ = false;
}

}  // namespace opstep
