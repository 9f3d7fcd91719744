// HitCount: counts the visits to a breakpoint and says which of them stop.
#pragma once

#include <atomic>
#include <cstdint>

#include "debug.pb.h"

namespace opstep {

// Counts for all threads, as long as the breakpoint is unchanged.
class HitCount {
 public:
  explicit HitCount(const proto::HitCondition& wanted) : op_(wanted.op()), count_(wanted.count()) {}

  // Counts a visit: does it stop?
  bool Visit() { return Wanted(visits_.fetch_add(1, std::memory_order_relaxed) + 1); }

 private:
  bool Wanted(uint64_t visit) const {
    switch (op_) {
      case proto::HitCondition::NOT_EQUAL:
        return visit != count_;
      case proto::HitCondition::LESS:
        return visit < count_;
      case proto::HitCondition::LESS_EQUAL:
        return visit <= count_;
      case proto::HitCondition::GREATER:
        return visit > count_;
      case proto::HitCondition::GREATER_EQUAL:
        return visit >= count_;
      case proto::HitCondition::MULTIPLE:
        return count_ != 0 && visit % count_ == 0;
      default:
        return visit == count_;
    }
  }

  const proto::HitCondition::Op op_;
  const uint64_t count_;
  std::atomic<uint64_t> visits_{0};
};

}  // namespace opstep
