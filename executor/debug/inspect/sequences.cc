// The sequences of a ragged variable, as wire messages.
#include "debug/inspect/sequences.h"

#include <algorithm>

namespace opstep {
namespace {

// Shown beside the type; the variable with the offsets has all of them.
constexpr int64_t kFirstLengths = 16;

const proto::VarDesc* FindRagged(const Plan& plan, uint32_t slot) {
  const SlotPlan& wanted = plan.slots[slot];
  for (const proto::VarDesc& var : plan.desc.blocks(wanted.block).vars()) {
    if (var.lod_size() > 0 && var.name() == wanted.name) return &var;
  }
  return nullptr;
}

// The offsets of a level over `rows` rows; null when they are absent or do not fit.
const Tensor* FindOffsets(const FrameView& frame, int block, const std::string& name,
                          int64_t rows) {
  const uint32_t slot = frame.plan().FindSlot(block, name);
  if (slot == 0 || frame.StateOf(slot) != ValueState::kPresent) return nullptr;
  const Tensor& offsets = frame.tensor(slot);
  if (!offsets || offsets.dtype != DType::kInt64 || offsets.dims.rank() != 1) return nullptr;
  const int64_t* first = offsets.as<int64_t>();
  const int64_t* end = first + offsets.numel;
  const bool fits = first != end && *first == 0 && *(end - 1) == rows && std::is_sorted(first, end);
  return fits ? &offsets : nullptr;
}

}  // namespace

void FillSequences(const FrameView& frame, uint32_t slot, proto::Tensor* out) {
  const proto::VarDesc* var = FindRagged(frame.plan(), slot);
  if (var == nullptr || out->dims_size() == 0) return;
  // From the innermost level, whose rows are the tensor's, to the outermost, which comes first.
  std::vector<proto::Sequences> levels;
  int64_t rows = out->dims(0);
  for (int i = var->lod_size() - 1; i >= 0; --i) {
    const std::string& name = var->lod(i).offsets();
    const Tensor* offsets = FindOffsets(frame, frame.plan().slots[slot].block, name, rows);
    if (offsets == nullptr) return;
    proto::Sequences& level = levels.emplace_back();
    rows = offsets->numel - 1;
    level.set_offsets(name);
    level.set_count(static_cast<uint64_t>(rows));
    const int64_t* at = offsets->as<int64_t>();
    for (int64_t s = 0; s < std::min(rows, kFirstLengths); ++s)
      level.add_lengths(at[s + 1] - at[s]);
  }
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    *out->add_sequences() = std::move(*level);
  }
}

}  // namespace opstep
