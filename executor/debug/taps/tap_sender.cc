// TapSender: batches, pieces of large tensors, confirmations.
#include "debug/taps/tap_sender.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace opstep {
namespace {

using std::chrono::milliseconds;

constexpr int kNice = 10;
// How long records gather, and how often their number is checked.
constexpr milliseconds kGather{200};
constexpr milliseconds kGatherStep{20};
// A signal may be missed: threads that make records do not take the lock.
constexpr milliseconds kLookAgain{100};
constexpr milliseconds kFullLine{2};
// How often the end of a process waits again because something was confirmed.
constexpr int kLongestClose = 5;
// The most that one batch holds.
constexpr size_t kBatchRecords = 4000;
constexpr size_t kBatchBytes = 512 << 10;
// The most that is under way, and the most that may wait to be written when a piece is added.
constexpr size_t kAheadRecords = 5 * kBatchRecords;
constexpr size_t kAheadBytes = 4 << 20;
constexpr size_t kPieceBytes = 1 << 20;

void AddColumns(const TapRecord& record, proto::TapRecords* to) {
  to->add_source(record.point->told.source());
  to->add_step(record.step);
  to->add_iteration(record.iteration);
  to->add_time(record.time);
  to->add_thread(record.thread);
  const Summary& s = record.statistics;
  to->add_count(s.count);
  to->add_min(s.min);
  to->add_max(s.max);
  to->add_mean(s.mean);
  to->add_std(s.std);
  to->add_l2(s.l2);
  to->add_nan(s.nan);
  to->add_inf(s.inf);
  to->add_zeros(s.zeros);
}

}  // namespace

void TapSender::Add(TapRecord& record) {
  TapCounters& counters = *record.point->counters;
  counters.produced.fetch_add(1, std::memory_order_relaxed);
  if (closed_.load(std::memory_order_relaxed)) {
    counters.at_exit.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (record.bytes > queue_.room()) {
    counters.too_large.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  // Held here: once it is in the queue the record may be sent and gone.
  const std::shared_ptr<const TapPoint> point = record.point;
  if (!queue_.Push(record)) {
    (connected_ ? counters.queue_full : counters.disconnected)
        .fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (!started_.load(std::memory_order_relaxed)) {
    const std::lock_guard lock(mutex_);
    if (!closing_ && !thread_.joinable()) thread_ = std::thread([this] { Loop(); });
    started_ = true;
  }
  if (asleep_.load(std::memory_order_relaxed) && asleep_.exchange(false)) changed_.notify_all();
}

void TapSender::Connect(Stream stream) {
  Disconnect();
  {
    const std::lock_guard lock(mutex_);
    stream_ = std::move(stream);
    ++epoch_;
  }
  connected_ = true;
  changed_.notify_all();
}

void TapSender::Disconnect() {
  const std::lock_guard lock(mutex_);
  connected_ = false;
  stream_ = {};
  told_.clear();
  Count(&TapCounters::unconfirmed);
}

// All that is under way.
void TapSender::Count(std::atomic<uint64_t> TapCounters::*what) {
  for (const Sent& sent : under_way_) {
    for (const auto& [source, part] : sent.of) (*part.first).*what += part.second;
  }
  under_way_.clear();
  records_ = bytes_ = 0;
}

void TapSender::Taken(const proto::TapsTaken& taken) {
  {
    const std::lock_guard lock(mutex_);
    const auto sent = std::find_if(under_way_.begin(), under_way_.end(),
                                   [&](const Sent& s) { return s.batch == taken.batch(); });
    if (sent == under_way_.end()) return;
    taken_at_ = TapClock::now();
    for (const proto::TapLoss& loss : taken.losses()) {
      const auto part = sent->of.find(loss.source());
      if (part == sent->of.end()) continue;
      auto& [counters, left] = part->second;
      const uint64_t lost = std::min(loss.records(), left);
      counters->sink += lost;
      left -= lost;
    }
    for (const auto& [source, part] : sent->of) part.first->delivered += part.second;
    records_ -= sent->records;
    bytes_ -= sent->bytes;
    under_way_.erase(sent);
  }
  changed_.notify_all();
}

bool TapSender::MaySend() const {
  return stream_.send && records_ < kAheadRecords && bytes_ < kAheadBytes;
}

void TapSender::Loop() {
#if defined(__linux__)
  // Runs come first: the sender uses the time that they leave.
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNice);
#endif
  std::unique_lock lock(mutex_);
  while (!closing_) {
    if (queue_.empty() || !MaySend()) {
      asleep_ = true;
      changed_.wait_for(lock, kLookAgain,
                        [&] { return closing_ || (!queue_.empty() && MaySend()); });
      asleep_ = false;
      if (closing_ || queue_.empty() || !MaySend()) continue;
      // Gather some more: one message costs as much as hundreds of records, here and at the server,
      // and frequent sending takes time from runs on the same cores.
      const auto until = TapClock::now() + kGather;
      const auto enough = [&] { return closing_ || hurried_; };
      while (!enough() && !queue_.filling() && TapClock::now() < until) {
        changed_.wait_for(lock, kGatherStep, enough);
      }
      if (closing_) return;
    }
    Send(lock);
  }
}

bool TapSender::Send(std::unique_lock<std::mutex>& lock) {
  if (!MaySend()) return false;
  proto::FromExecutor message;
  proto::TapRecords& batch = *message.mutable_tap_records();
  Sent sent;
  TapRecord record;
  std::unordered_map<std::string, std::shared_ptr<TapCounters>> taps;
  std::string rest;  // elements of the last record that do not fit into the message
  uint32_t rest_of = 0;
  while (rest.empty() && sent.records < kBatchRecords && sent.bytes < kBatchBytes &&
         queue_.Pop(&record)) {
    const TapPoint& point = *record.point;
    const uint32_t number = point.told.source();
    if (told_.insert(number).second) {
      proto::FromExecutor source;
      *source.mutable_tap_source() = point.told;
      stream_.send(std::move(source));
    }
    AddColumns(record, &batch);
    if (record.extra) {
      record.extra->set_record(static_cast<uint32_t>(sent.records));
      std::string* data =
          record.extra->has_tensor() ? record.extra->mutable_tensor()->mutable_data() : nullptr;
      if (data != nullptr && data->size() > kPieceBytes) {
        rest_of = record.extra->record();
        rest.swap(*data);
      }
      *batch.add_extras() = std::move(*record.extra);
    }
    auto& [counters, records] = sent.of[number];
    counters = point.counters;
    ++records;
    taps.emplace(point.told.tap(), point.counters);
    ++sent.records;
    sent.bytes += 128 + record.bytes - rest.size();
    if (rest.empty()) queue_.Free(record.bytes);
  }
  if (sent.records == 0) return false;
  batch.set_batch(sent.batch = ++last_batch_);
  for (const auto& [uid, counters] : taps) counters->Fill(uid, batch.add_counts());
  records_ += sent.records;
  bytes_ += sent.bytes;
  under_way_.push_back(std::move(sent));
  stream_.send(std::move(message));
  // As fast as the server reads them, so that they do not fill the memory.
  const uint64_t epoch = epoch_, number = last_batch_;
  sending_ = true;
  for (size_t offset = 0; offset < rest.size() && stream_.send && epoch == epoch_ && !closing_;) {
    if (stream_.unsent() > kAheadBytes) {
      changed_.wait_for(lock, kFullLine, [&] { return closing_; });
      continue;
    }
    proto::FromExecutor next;
    proto::TapPiece& piece = *next.mutable_tap_piece();
    piece.set_batch(number);
    piece.set_record(rest_of);
    piece.set_offset(offset);
    piece.set_data(rest.substr(offset, kPieceBytes));
    offset += piece.data().size();
    stream_.send(std::move(next));
  }
  sending_ = false;
  if (!rest.empty()) queue_.Free(record.bytes);
  return true;
}

uint64_t TapSender::Close(milliseconds most, std::vector<uint64_t>* batches) {
  const auto end = TapClock::now() + kLongestClose * most;
  uint64_t lost = 0;
  {
    std::unique_lock lock(mutex_);
    hurried_ = true;
    taken_at_ = TapClock::now();
    // The sender goes on until all is confirmed, or nothing was confirmed for too long.
    while (thread_.joinable() && stream_.send &&
           TapClock::now() < std::min(end, taken_at_ + most) &&
           (sending_ || !queue_.empty() || !under_way_.empty())) {
      changed_.notify_all();
      changed_.wait_for(lock, kFullLine);
    }
    closing_ = true;
    closed_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  for (TapRecord record; queue_.Pop(&record); ++lost) {
    queue_.Free(record.bytes);
    record.point->counters->at_exit += 1;
  }
  lost += records_;
  for (const Sent& sent : under_way_) {
    if (batches != nullptr) batches->push_back(sent.batch);
  }
  Count(&TapCounters::at_exit);
  stream_ = {};
  connected_ = false;
  return lost;
}

}  // namespace opstep
