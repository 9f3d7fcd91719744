// Parts of ops over ragged tensors.
// The rows of all sequences lie one after the other, and sequence i has the rows offsets[i] …
// offsets[i + 1] - 1.
#pragma once

#include "ops/lib/strided_copy.h"

namespace opstep {

inline constexpr DTypeSet kOffsets(DType::kInt64);

// The number of sequences, or -1.
inline int64_t SequenceCount(const Dims& offsets) {
  OPSTEP_CHECK(offsets.rank() == 1 && offsets[0] != 0, "offsets is ", offsets.ToString(),
               ": it must be [sequences + 1]");
  return offsets[0] < 0 ? -1 : offsets[0] - 1;
}

inline int64_t RowCount(const Dims& x, std::string_view name) {
  OPSTEP_CHECK(x.rank() > 0, name, " is a single number: its first axis must be rows");
  return x[0];
}

// The sizes of x with others in place of its first `replaced` ones.
inline Dims WithFirst(Dims first, const Dims& x, int replaced) {
  for (int i = replaced; i < x.rank(); ++i) first.push_back(x[i]);
  return first;
}

[[noreturn]] [[gnu::noinline]] inline void RefuseOffset(const int64_t* offsets, int64_t i,
                                                        int64_t rows) {
  Fail("offsets[", i, "] is ", offsets[i], i > 0 ? Cat(" after ", offsets[i - 1]) : "",
       ": offsets must begin with 0, never fall, and end with the number of rows, ", rows);
}

// Calls f(sequence, its first row, the row after its last one). Offsets are untrusted data: nothing
// outside the rows is ever touched.
template <typename F>
OPSTEP_INLINE void ForEachSequence(const Tensor& offsets, int64_t rows, F&& f) {
  const int64_t* at = offsets.as<int64_t>();
  const int64_t count = offsets.numel - 1;
  if (at[0] != 0) [[unlikely]]
    RefuseOffset(at, 0, rows);
  if (at[count] != rows) [[unlikely]]
    RefuseOffset(at, count, rows);
  for (int64_t s = 0; s < count; ++s) {
    if (at[s + 1] < at[s] || at[s + 1] > rows) [[unlikely]]
      RefuseOffset(at, s + 1, rows);
    f(s, at[s], at[s + 1]);
  }
}

}  // namespace opstep
