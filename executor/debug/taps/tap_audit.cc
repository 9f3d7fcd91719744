// TapAudit: its lines, and the thread that appends them to a file.
#include "debug/taps/tap_audit.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/json.h"

namespace opstep {
namespace {

constexpr size_t kKept = 200;

std::string Now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const auto at = static_cast<time_t>(ms / 1000);
  tm utc{};
  gmtime_r(&at, &utc);
  char text[32];
  const size_t end = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text + end, sizeof text - end, ".%03dZ", static_cast<int>(ms % 1000));
  return text;
}

}  // namespace

struct TapAudit::Writer {
  explicit Writer(std::string file) : file(std::move(file)) {}

  void Put(std::string line) {
    {
      const std::lock_guard lock(mutex);
      if (waiting.size() >= kKept) waiting.pop_front();
      waiting.push_back(std::move(line));
    }
    changed.notify_all();
  }

  void Loop() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return closing || !waiting.empty(); });
      if (waiting.empty()) break;
      const std::string line = std::move(waiting.front()) + '\n';
      waiting.pop_front();
      lock.unlock();
      Append(line);
      lock.lock();
    }
    over = true;
    changed.notify_all();
  }

  void Append(const std::string& line) {
    const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK;
    const int fd = ::open(file.c_str(), flags, 0600);
    const bool ok =
        fd >= 0 && ::write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
    const int error = errno;
    if (fd >= 0) ::close(fd);
    if (!ok && !failed) {
      std::fprintf(stderr, "opstep: the audit of taps cannot be written to %s: %s\n", file.c_str(),
                   std::strerror(error));
    }
    failed = !ok;
  }

  const std::string file;
  bool failed = false;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> waiting;
  bool closing = false, over = false;
};

TapAudit::~TapAudit() { Finish(); }

void TapAudit::Finish() {
  if (!writer_) return;
  const std::shared_ptr<Writer> writer = std::move(writer_);
  std::unique_lock lock(writer->mutex);
  writer->closing = true;
  writer->changed.notify_all();
  writer->changed.wait_for(lock, std::chrono::milliseconds(500), [&] { return writer->over; });
}

void TapAudit::Write(const std::string& who, const std::string& did, const proto::Tap& tap,
                     const std::string& why) {
  std::string line =
      Cat("{\"time\": ", JsonString(Now()), ", \"pid\": ", ::getpid(),
          ", \"who\": ", JsonString(who), ", \"did\": ", JsonString(did),
          ", \"tap\": ", JsonString(tap.name()), ", \"uid\": ", JsonString(tap.uid()));
  if (!why.empty()) line += Cat(", \"why\": ", JsonString(why));
  // The exact settings, as one word each.
  std::string settings = tap.ShortDebugString();
  if (settings.size() > 2000) settings.resize(2000);
  line += Cat(", \"settings\": ", JsonString(settings), "}");
  lines_.push_back(line);
  if (lines_.size() > kKept) lines_.pop_front();
  if (file_.empty()) return;
  if (!writer_) {
    writer_ = std::make_shared<Writer>(file_);
    std::thread([writer = writer_] { writer->Loop(); }).detach();
  }
  writer_->Put(std::move(line));
}

}  // namespace opstep
