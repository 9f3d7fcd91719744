#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "debug.pb.h"

namespace opstep {

// What taps may do in this process, whatever a server asks for.
struct TapLimits {
  proto::Policy policy = proto::POLICY_FULL;
  // Patterns over op names and types; empty: all ops.
  std::vector<std::string> allowed;
  // Whole tensors too. When they are not, a value has at most kFew elements.
  bool full_tensors = true;
  // Of the time that passes, and of what records hold; 0: no limit. Whoever is beyond is switched
  // off.
  double cpu_share = 0;
  double bytes_per_second = 0;
  // Of records that wait.
  size_t queue_bytes = 32 << 20;
  // Every change of a tap is a line of this file; empty: they are kept in memory only.
  std::string audit_file;

  static constexpr int64_t kFew = 64;

  bool Allows(const proto::OpDesc& op) const;
};

// Who changed which tap, and when: the last changes, as JSON lines.
class Audit {
 public:
  explicit Audit(std::string file) : file_(std::move(file)) {}
  void Write(const std::string& who, const std::string& did, const proto::Tap& tap,
             const std::string& why = "");
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  const std::string file_;
  bool failed_ = false;
  std::deque<std::string> lines_;
};

}  // namespace opstep
