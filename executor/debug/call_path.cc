#include "debug/call_path.h"

namespace opstep {

void CallPath::Enter(const std::vector<uint32_t>& lines, uint32_t op) {
  size_t same = 0;
  while (same < levels_.size() && same < lines.size() && levels_[same].line == lines[same] &&
         !levels_[same].ops.contains(op))
    ++same;
  levels_.resize(same);
  for (; same < lines.size(); ++same) levels_.push_back({lines[same], ++last_, {}});
  for (Level& level : levels_) level.ops.insert(op);
}

std::vector<uint64_t> CallPath::entries() const {
  std::vector<uint64_t> numbers;
  for (const Level& level : levels_) numbers.push_back(level.entry);
  return numbers;
}

}  // namespace opstep
