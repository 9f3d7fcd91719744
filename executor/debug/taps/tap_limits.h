// TapLimits: the limits of taps in this process, which no server can exceed.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "debug.pb.h"

namespace opstep {

struct TapLimits {
  proto::Policy policy = proto::POLICY_FULL;
  // Patterns over op names and types; empty: all ops.
  std::vector<std::string> allowed;
  // Whole tensors too. When they are not, a value has at most kFew elements.
  bool full_tensors = true;
  // Shares of the elapsed time and of the records' bytes; 0: no limit. A tap beyond its limit is
  // switched off.
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

}  // namespace opstep
