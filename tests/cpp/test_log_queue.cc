// Records of log points: all are sent or counted, in order, whatever the stream does.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>
#include <vector>

#include "debug/breakpoints/log_queue.h"

using namespace opstep;

namespace {

void Check(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "FAILED: %s\n", what);
  std::abort();
}

proto::LogRecord Record(uint64_t step, size_t bytes = 0, uint32_t breakpoint = 1) {
  proto::LogRecord record;
  record.set_breakpoint(breakpoint);
  record.set_step(step);
  record.set_op(std::string(bytes, 'x'));
  return record;
}

// What a server would have got.
struct Stream {
  std::vector<uint64_t> steps;
  uint64_t dropped = 0;
  uint64_t taken = 0;
  std::map<uint32_t, uint64_t> dropped_by;
  bool open = true;
  LogQueue queue{[this](proto::Logs&& logs) {
    if (!open) return false;
    dropped += logs.dropped();
    for (const auto& [breakpoint, count] : logs.dropped_by()) dropped_by[breakpoint] += count;
    for (const proto::LogRecord& r : logs.records()) steps.push_back(r.step());
    return true;
  }};
  // What the reader would be told next.
  void Take() {
    const uint64_t seen = steps.size();
    queue.Taken(seen - taken);
    taken = seen;
  }
};

void FewRecords() {
  Stream stream;
  for (uint64_t i = 0; i < 100; ++i) stream.queue.Add(Record(i));
  stream.queue.Close();
  Check(stream.steps.size() == 100 && stream.dropped == 0, "all were sent");
  for (uint64_t i = 0; i < 100; ++i) Check(stream.steps[i] == i, "in order");
  stream.queue.Add(Record(100));
  stream.queue.Flush();
  Check(stream.steps.size() == 101, "it goes on after Close");
}

void SlowServer() {
  Stream stream;
  constexpr uint64_t kMany = 20000;
  for (uint64_t i = 0; i < kMany; ++i) stream.queue.Add(Record(i, 1000));
  stream.queue.Flush();
  const uint64_t ahead = stream.steps.size();
  Check(ahead < 6000, "a server that takes nothing gets only a few");
  stream.queue.Flush();
  Check(stream.steps.size() == ahead, "and no more");
  for (size_t before = 0; before != stream.steps.size();) {
    before = stream.steps.size();
    stream.Take();
    stream.queue.Flush();
  }
  Check(stream.dropped > 0 && stream.steps.size() + stream.dropped == kMany, "the rest is counted");
  for (size_t i = 1; i < stream.steps.size(); ++i) {
    Check(stream.steps[i - 1] < stream.steps[i], "in order");
  }
  for (uint64_t i = 0; i < 10000; ++i) stream.queue.Add(Record(i));
  stream.queue.Close();
  Check(stream.steps.size() + stream.dropped == kMany + 10000, "also what is left at the end");
}

void ManyThreads() {
  Stream stream;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < 5000; ++i) stream.queue.Add(Record(i, 100));
    });
  }
  for (std::thread& thread : threads) thread.join();
  stream.queue.Close();
  Check(stream.steps.size() + stream.dropped == 20000, "exactly");
}

// A process that disconnects while its threads log.
void ClosedWhileWritten() {
  Stream stream;
  constexpr uint64_t kEach = 5000;
  std::atomic<int> writing{2};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < kEach; ++i) stream.queue.Add(Record(i));
      --writing;
    });
  }
  while (writing > 0) {
    stream.queue.Close();
    stream.queue.Taken(kEach);
  }
  for (std::thread& thread : threads) thread.join();
  stream.queue.Close();
  Check(stream.steps.size() + stream.dropped == 2 * kEach, "none is lost");
}

void ByBreakpoint() {
  Stream stream;
  uint64_t sent[3] = {};
  for (uint64_t i = 0; i < 30000; ++i) {
    const uint32_t breakpoint = 1 + i % 3 / 2;
    ++sent[breakpoint];
    stream.queue.Add(Record(i, 1000, breakpoint));
  }
  stream.queue.Finish();
  Check(stream.dropped_by[1] > stream.dropped_by[2] && stream.dropped_by[2] > 0, "each for itself");
  Check(stream.dropped_by[1] + stream.dropped_by[2] == stream.dropped, "the sum of both");
  Check(stream.steps.size() + stream.dropped == sent[1] + sent[2], "nothing is left behind");
}

void ServerThatLeaves() {
  Stream stream;
  for (uint64_t i = 0; i < 20000; ++i) stream.queue.Add(Record(i, 1000));
  stream.queue.Flush();
  Check(stream.queue.Clear() == 20000, "what it has not taken may be lost");
  Check(stream.queue.Clear() == 0, "once");
  for (uint64_t i = 0; i < 10; ++i) stream.queue.Add(Record(i));
  stream.queue.Flush();
  stream.queue.Taken(10);
  Check(stream.queue.Clear() == 0, "it has them");
  stream.open = false;
  for (uint64_t i = 0; i < 10; ++i) stream.queue.Add(Record(i));
  stream.queue.Flush();
  Check(stream.queue.Clear() == 10, "messages that went nowhere");
}

void DropsAlone() {
  Stream stream;
  for (uint64_t i = 0; i < 20000; ++i) stream.queue.Add(Record(i, 1000));
  stream.queue.Finish();
  // One message for each answer; the last one held nothing but counts.
  const uint64_t records = stream.steps.size();
  stream.queue.Taken(records);
  stream.queue.Taken(0);
  Check(stream.queue.Clear() == 0, "counts are taken too");
}

void EndsOfRuns() {
  Stream stream;
  stream.queue.Settle();  // Nothing was written: nobody is waited for.
  // A server that takes what it gets: a run ends when it has.
  std::atomic<bool> over{false};
  stream.queue.Add(Record(0));
  std::thread run([&] {
    stream.queue.Settle();
    over = true;
  });
  stream.queue.Flush();
  Check(stream.steps.size() == 1, "it is sent");
  stream.queue.Taken(1);
  run.join();
  Check(over, "the run ended");
  // One that takes nothing is waited for once.
  stream.queue.Add(Record(1));
  stream.queue.Settle();
  const auto before = std::chrono::steady_clock::now();
  constexpr uint64_t kMore = 3000;  // Ten minutes if each of them waited.
  for (uint64_t i = 2; i < kMore; ++i) {
    stream.queue.Add(Record(i));
    stream.queue.Settle();
  }
  Check(std::chrono::steady_clock::now() - before < std::chrono::minutes(5), "once only");
  Check(stream.steps.size() == kMore, "what is written is sent nevertheless");
  // A server that leaves lets the run end.
  stream.queue.Clear();
  stream.queue.Add(Record(kMore));
  std::thread left([&] { stream.queue.Settle(); });
  stream.queue.Clear();
  left.join();
}

}  // namespace

int main() {
  EndsOfRuns();
  FewRecords();
  SlowServer();
  ManyThreads();
  ClosedWhileWritten();
  ByBreakpoint();
  ServerThatLeaves();
  DropsAlone();
}
