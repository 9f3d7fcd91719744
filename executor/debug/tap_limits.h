#pragma once

#include <cstddef>
#include <deque>
#include <memory>
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
  // Throws when the expression could show more than the op's own values, as a whole, where only
  // some ops are allowed or whole tensors are not.
  void CheckAllowed(const proto::Expr& expr, const proto::OpDesc& op) const;
};

// Who changed which tap, and when: the last changes, as JSON lines.
//
// Thread: one, from the first line that goes to a file. It alone waits for that file's disk, and is
// left to itself when it does so for too long at the end.
class Audit {
 public:
  explicit Audit(std::string file) : file_(std::move(file)) {}
  ~Audit();
  // Waits a moment until all lines are written.
  void Finish();
  void Write(const std::string& who, const std::string& did, const proto::Tap& tap,
             const std::string& why = "");
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  struct Writer;

  const std::string file_;
  std::deque<std::string> lines_;
  std::shared_ptr<Writer> writer_;
};

}  // namespace opstep
