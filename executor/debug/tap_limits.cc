#include "debug/tap_limits.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "base/error.h"
#include "base/json.h"
#include "debug/matching.h"

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

bool TapLimits::Allows(const proto::OpDesc& op) const {
  return allowed.empty() ||
         std::any_of(allowed.begin(), allowed.end(), [&](const std::string& pattern) {
           return op.type() == pattern || MatchesGlob(pattern, op.name());
         });
}

void Audit::Write(const std::string& who, const std::string& did, const proto::Tap& tap,
                  const std::string& why) {
  std::string line =
      Cat("{\"time\": ", JsonString(Now()), ", \"pid\": ", ::getpid(),
          ", \"who\": ", JsonString(who), ", \"did\": ", JsonString(did),
          ", \"tap\": ", JsonString(tap.name()), ", \"uid\": ", JsonString(tap.uid()));
  if (!why.empty()) line += Cat(", \"why\": ", JsonString(why));
  // What exactly was set, in one word for each setting.
  std::string settings = tap.ShortDebugString();
  if (settings.size() > 2000) settings.resize(2000);
  line += Cat(", \"settings\": ", JsonString(settings), "}");
  lines_.push_back(line);
  if (lines_.size() > kKept) lines_.pop_front();
  if (file_.empty()) return;
  line += '\n';
  const int fd = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const bool ok =
      fd >= 0 && ::write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (!ok && !failed_) {
    std::fprintf(stderr, "opstep: the audit of taps cannot be written to %s: %s\n", file_.c_str(),
                 std::strerror(error));
  }
  failed_ = !ok;
}

}  // namespace opstep
