// Tap records: none is lost or doubled between threads, room is kept, and every record is counted
// once, whatever the stream does.
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "debug/taps/tap_sender.h"

using namespace opstep;
using std::chrono::milliseconds;

namespace {

void Check(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "FAILED: %s\n", what);
  std::abort();
}

std::shared_ptr<const TapPoint> Point(std::shared_ptr<TapCounters> counters, uint32_t number) {
  proto::TapSource source;
  source.set_source(number);
  source.set_tap("t");
  return std::make_shared<const TapPoint>(std::move(counters), std::move(source));
}

TapRecord Record(const std::shared_ptr<const TapPoint>& point, uint64_t step, size_t bytes = 0) {
  TapRecord record;
  record.point = point;
  record.step = step;
  if (bytes > 0) {
    record.extra = std::make_unique<proto::TapExtra>();
    record.extra->mutable_tensor()->mutable_data()->resize(bytes);
    record.bytes = bytes;
  }
  return record;
}

proto::TapCounts CountsOf(const TapCounters& counters) {
  proto::TapCounts counts;
  counters.Fill("t", &counts);
  return counts;
}

bool AddsUp(const proto::TapCounts& c) {
  return c.produced() == c.delivered() + c.waiting() + c.queue_full() + c.disconnected() +
                             c.rate() + c.too_large() + c.sink() + c.unconfirmed() + c.at_exit();
}

// Four threads push, two pop: each record comes out once, those of one thread in their order.
void TestThreads() {
  constexpr uint64_t kEach = 200'000;
  TapQueue queue(256 << 10);
  const auto point = Point(std::make_shared<TapCounters>(), 1);
  std::atomic<uint64_t> pushed{0}, popped{0}, sum{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (uint64_t id = 0; id < 4; ++id) {
    threads.emplace_back([&, id] {
      for (uint64_t i = 0; i < kEach; ++i) {
        TapRecord record = Record(point, id << 32 | i, i % 1000 == 0 ? 100 : 0);
        while (!queue.Push(record)) std::this_thread::yield();
        pushed += i;
      }
    });
  }
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&] {
      std::vector<int64_t> last(4, -1);
      for (TapRecord record;;) {
        if (!queue.Pop(&record)) {
          if (done && queue.empty()) return;
          std::this_thread::yield();
          continue;
        }
        queue.Free(record.bytes);
        const auto i = static_cast<int64_t>(record.step & 0xffffffff);
        int64_t& before = last[record.step >> 32];
        Check(i > before, "records of a thread come in their order");
        before = i;
        sum += static_cast<uint64_t>(i);
        ++popped;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  for (std::thread& thread : readers) thread.join();
  Check(popped == 4 * kEach && sum == pushed, "each record comes out once");
}

void TestRoom() {
  TapQueue queue(1 << 20);
  const auto point = Point(std::make_shared<TapCounters>(), 1);
  size_t taken = 0;
  TapRecord record = Record(point, 0, 100'000);
  while (queue.Push(record)) {
    taken += 100'000;
    record = Record(point, 0, 100'000);
  }
  Check(taken > 0 && taken <= queue.room(), "extras take no more than the room");
  Check(record.extra != nullptr, "a record that has no room is unchanged");
  TapRecord small = Record(point, 1);
  Check(queue.Push(small), "a record without an extra needs no room");
  TapRecord first;
  Check(queue.Pop(&first) && !queue.Push(record), "room stays taken until it is given back");
  queue.Free(first.bytes);
  Check(queue.Push(record), "room that was given back can be used");
  TapQueue narrow(64 << 10);
  int n = 0;
  for (TapRecord next = Record(point, 0); narrow.Push(next); next = Record(point, 0)) ++n;
  Check(n >= 64 && n <= 1024, "a queue has an end");
}

struct Server {
  std::mutex mutex;
  std::vector<proto::FromExecutor> messages;

  TapSender::Stream stream() {
    return {[this](proto::FromExecutor&& message) {
              const std::lock_guard lock(mutex);
              messages.push_back(std::move(message));
            },
            [] { return size_t{0}; }};
  }
  // Batches that came since the last call.
  std::vector<proto::TapRecords> Take() {
    const std::lock_guard lock(mutex);
    std::vector<proto::TapRecords> batches;
    for (proto::FromExecutor& message : messages) {
      if (message.has_tap_records()) batches.push_back(std::move(*message.mutable_tap_records()));
    }
    messages.clear();
    return batches;
  }
};

template <typename F>
void Until(F&& condition, const char* what) {
  for (int i = 0; i < 60'000; ++i) {
    if (condition()) return;
    std::this_thread::sleep_for(milliseconds(2));
  }
  Check(false, what);
}

void TestDelivery() {
  TapSender sender(1 << 20);
  Server server;
  const auto counters = std::make_shared<TapCounters>();
  const auto point = Point(counters, 7);
  TapRecord before = Record(point, 1);
  sender.Add(before);
  Check(CountsOf(*counters).waiting() == 1, "without a server records wait");
  sender.Connect(server.stream());
  std::vector<proto::TapRecords> got;
  const auto arrived = [&](size_t n) {
    for (proto::TapRecords& batch : server.Take()) got.push_back(std::move(batch));
    size_t records = 0;
    for (const proto::TapRecords& batch : got) records += static_cast<size_t>(batch.source_size());
    return records >= n;
  };
  Until([&] { return arrived(1); }, "they go out when one comes");
  for (uint64_t i = 2; i <= 100; ++i) {
    TapRecord record = Record(point, i);
    sender.Add(record);
  }
  Until([&] { return arrived(100); }, "all records are sent");
  // The first batch is taken, of the others one record is lost.
  uint64_t lost = 0;
  for (const proto::TapRecords& batch : got) {
    proto::TapsTaken taken;
    taken.set_batch(batch.batch());
    if (batch.batch() > 1) {
      taken.add_losses()->set_source(7);
      taken.mutable_losses(0)->set_records(1);
      ++lost;
    }
    sender.Taken(taken);
    sender.Taken(taken);  // said twice, counted once
  }
  proto::TapCounts counts = CountsOf(*counters);
  Check(AddsUp(counts) && counts.delivered() == 100 - lost && counts.sink() == lost,
        "what the server says of a batch is counted once");
  TapRecord more = Record(point, 101);
  sender.Add(more);
  Until([&] { return arrived(101); }, "it goes on");
  sender.Disconnect();
  counts = CountsOf(*counters);
  Check(AddsUp(counts) && counts.unconfirmed() == 1 && counts.waiting() == 0,
        "what was on the way to a server that is gone is unconfirmed");
  TapRecord huge = Record(point, 102, 2 << 20);
  sender.Add(huge);
  Check(CountsOf(*counters).too_large() == 1, "what never fits is too large");
  for (int i = 0; i < 100'000; ++i) {
    TapRecord record = Record(point, 200);
    sender.Add(record);
  }
  counts = CountsOf(*counters);
  Check(AddsUp(counts) && counts.disconnected() > 0 && counts.queue_full() == 0,
        "without a server a full queue counts as disconnected");
  const uint64_t left = sender.Close(milliseconds(50));
  counts = CountsOf(*counters);
  Check(AddsUp(counts) && counts.waiting() == 0 && counts.at_exit() == left && left > 0,
        "what is left at the end is counted");
}

void TestPieces() {
  TapSender sender(16 << 20);
  Server server;
  sender.Connect(server.stream());
  const auto counters = std::make_shared<TapCounters>();
  TapRecord record = Record(Point(counters, 1), 1, (5 << 20) + 3);
  sender.Add(record);
  size_t pieces = 0, bytes = 0;
  Until(
      [&] {
        const std::lock_guard lock(server.mutex);
        pieces = bytes = 0;
        for (const proto::FromExecutor& message : server.messages) {
          if (!message.has_tap_piece()) continue;
          Check(message.tap_piece().offset() == bytes, "pieces come in order");
          bytes += message.tap_piece().data().size();
          ++pieces;
        }
        return bytes == (5 << 20) + 3;
      },
      "all of a large tensor comes");
  Check(pieces == 6, "a piece has at most 1 MiB");
  sender.Close(milliseconds(0));
}

}  // namespace

int main() {
  TestThreads();
  TestRoom();
  TestDelivery();
  TestPieces();
  return 0;
}
