// Parses "float32[2, 3]".
#include "base/type_text.h"

#include <charconv>

namespace opstep {

std::optional<VarType> ParseType(std::string_view text) {
  const size_t open = text.find('[');
  if (open == std::string_view::npos || text.back() != ']') return std::nullopt;
  const std::optional<DType> dtype = DTypeFromName(text.substr(0, open));
  if (!dtype) return std::nullopt;
  VarType type{*dtype, {}};
  const char* next = text.data() + open + 1;
  const char* end = text.data() + text.size() - 1;
  while (next < end) {
    int64_t size = 0;
    const auto [after, error] = std::from_chars(next, end, size);
    if (error != std::errc() || size < 0 || type.dims.rank() == Dims::kMaxRank) {
      return std::nullopt;
    }
    type.dims.push_back(size);
    next = after;
    if (next < end && *next++ != ',') return std::nullopt;
    if (next < end && *next == ' ') ++next;
  }
  return type;
}

}  // namespace opstep
