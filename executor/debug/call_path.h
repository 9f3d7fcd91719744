#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

namespace opstep {

// Which of the user's lines a thread is in, in imperative mode, where an op tells no more than its
// lines: each entry into a line gets a number. A line is left when another is met in its place, and
// entered anew when an op runs again that has run in it.
class CallPath {
 public:
  // An op is about to run. `lines`: of its stack, outermost first.
  void Enter(const std::vector<uint32_t>& lines, uint32_t op);
  // Something else ran.
  void Leave() { levels_.clear(); }
  // Of the entries, outermost first.
  std::vector<uint64_t> entries() const;
  // Of the last of so many lines; 0 when nobody looked as it was entered.
  uint64_t entry(size_t lines) const {
    return lines > levels_.size() ? 0 : levels_[lines - 1].entry;
  }

 private:
  struct Level {
    uint32_t line = 0;
    uint64_t entry = 0;
    std::unordered_set<uint32_t> ops;  // that have run since
  };
  std::vector<Level> levels_;
  uint64_t last_ = 0;
};

}  // namespace opstep
