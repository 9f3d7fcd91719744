// Checks of labels for ops on the rows of a matrix that each have one.
#pragma once

#include "ops/lib/shape_rules.h"

namespace opstep {

// `rows` is [N, classes] and label [N] or [N, 1].
inline void CheckLabelShape(const Dims& rows, std::string_view name, const Dims& label) {
  OPSTEP_CHECK(rows.rank() == 2, name, " is ", rows.ToString(), ": it must be [N, classes]");
  OPSTEP_CHECK((label.rank() == 1 || (label.rank() == 2 && SizesAgree(label[1], 1))) &&
                   SizesAgree(label[0], rows[0]),
               "label is ", label.ToString(), " but ", name, " is ", rows.ToString(),
               ": label must be [N] or [N, 1]");
}

[[noreturn]] inline void FailLabel(std::string_view name, int64_t row, int64_t label,
                                   int64_t classes) {
  Fail(name, "[", row, "] is ", label, " but there are ", classes, " classes: they run from 0 to ",
       classes - 1);
}

inline void CheckLabel(std::string_view name, int64_t row, int64_t label, int64_t classes) {
  if (label < 0 || label >= classes) [[unlikely]] {
    FailLabel(name, row, label, classes);
  }
}

}  // namespace opstep
