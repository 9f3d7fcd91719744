// PrefetchSource: its thread and its queue.
#include <cxxabi.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "data/stages.h"
#include "data/waiting.h"

namespace opstep {
namespace {

using namespace std::chrono_literals;

}  // namespace

// Shared with the thread, which may outlive the reader: a program must be able to end when data
// never arrive.
struct PrefetchSource::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<SourceRecord> records;
  bool ended = false;
  bool stop = false;
  std::exception_ptr error;
  std::atomic<uint64_t> left_out{0};

  void Fill(Source& from, size_t depth) {
    try {
      while (true) {
        SourceRecord record;
        const bool any = from.Next(record);
        left_out = from.left_out();
        std::unique_lock lock(mutex);
        if (!any) break;
        changed.wait(lock, [&] { return stop || records.size() < depth; });
        if (stop) break;
        records.push_back(std::move(record));
        changed.notify_all();
      }
    } catch (abi::__forced_unwind&) {
      throw;  // Python ends the thread
    } catch (...) {
      const std::lock_guard lock(mutex);
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    ended = true;
    changed.notify_all();
  }
};

PrefetchSource::PrefetchSource(std::shared_ptr<Source> from, int64_t depth)
    : from_(std::move(from)), depth_(static_cast<size_t>(depth)) {
  OPSTEP_CHECK(depth > 0, "cannot read ", depth, " records ahead: take 1 or more");
}

PrefetchSource::~PrefetchSource() {
  // A thread that waits for data that never arrive is abandoned.
  if (queue_ != nullptr) Stop(500ms);
}

bool PrefetchSource::Stop(std::chrono::milliseconds patience) {
  std::unique_lock lock(queue_->mutex);
  queue_->stop = true;
  queue_->changed.notify_all();
  return queue_->changed.wait_for(lock, patience, [&] { return queue_->ended; });
}

void PrefetchSource::Restart(uint64_t pass) {
  if (queue_ != nullptr) {
    while (!Stop(50ms)) PollWaiting();
    queue_ = nullptr;
  }
  from_->Restart(pass);
}

uint64_t PrefetchSource::Skip(uint64_t count) {
  // Before anything was read ahead, the source itself may skip faster.
  return queue_ == nullptr ? from_->Skip(count) : Source::Skip(count);
}

uint64_t PrefetchSource::left_out() const {
  return queue_ == nullptr ? from_->left_out() : queue_->left_out.load();
}

bool PrefetchSource::Next(SourceRecord& record) {
  if (queue_ == nullptr) {
    queue_ = std::make_shared<Queue>();
    std::thread([queue = queue_, from = from_, depth = depth_] {
      queue->Fill(*from, depth);
    }).detach();
  }
  Queue& queue = *queue_;
  std::unique_lock lock(queue.mutex);
  OPSTEP_CHECK(!queue.stop, "the reader was interrupted: restart it");
  const auto ready = [&] { return !queue.records.empty() || queue.ended; };
  while (!queue.changed.wait_for(lock, 50ms, ready)) {
    lock.unlock();
    PollWaiting();
    lock.lock();
  }
  if (queue.records.empty()) {
    if (queue.error) std::rethrow_exception(queue.error);
    return false;
  }
  record = std::move(queue.records.front());
  queue.records.pop_front();
  queue.changed.notify_all();
  return true;
}

}  // namespace opstep
