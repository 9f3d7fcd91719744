#include "debug/exceptions.h"

#include <algorithm>
#include <span>

#include "base/summary.h"

namespace opstep {
namespace {

struct Args {
  std::span<const uint32_t> in, out;
  explicit Args(const Instruction& i) : in(i.args, i.n_in), out(i.args + i.n_in, i.n_out) {}
  bool Rewritten(uint32_t slot) const {
    return std::find(out.begin(), out.end(), slot) != out.end();
  }
};

// Null when there is nothing to look at.
const Tensor* FloatsIn(const FrameView& frame, uint32_t slot) {
  if (!slot || frame.StateOf(slot) != ValueState::kPresent) return nullptr;
  const Tensor& tensor = frame.tensor(slot);
  return tensor && IsFloat(tensor.dtype) ? &tensor : nullptr;
}

void Look(const FrameView& frame, uint32_t slot, BadNumbers* found) {
  const Tensor* tensor = FloatsIn(frame, slot);
  if (!tensor || AllFinite(*tensor)) return;
  const NonFinite bad = CountNonFinite(*tensor);
  found->nan |= bad.nan > 0;
  found->inf |= bad.inf > 0;
}

std::string IndexOf(int64_t flat, const Dims& dims) {
  std::string text;
  for (int axis = dims.rank() - 1; axis >= 0; --axis) {
    text = std::to_string(flat % dims[axis]) + (text.empty() ? "" : ", ") + text;
    flat /= dims[axis];
  }
  return "[" + text + "]";
}

}  // namespace

bool Wants(const proto::SetExceptions& wanted, proto::FaultKind kind) {
  return std::any_of(wanted.filters().begin(), wanted.filters().end(),
                     [&](const proto::FaultFilter& filter) { return filter.kind() == kind; });
}

BadNumbers LookAtRewritten(const FrameView& frame) {
  const Args args(*frame.top().instruction);
  BadNumbers found;
  for (uint32_t slot : args.in) {
    if (args.Rewritten(slot)) Look(frame, slot, &found);
  }
  return found;
}

std::optional<Finding> FindMade(const FrameView& frame, const proto::SetExceptions& wanted,
                                const BadNumbers& before) {
  const Instruction& instruction = *frame.top().instruction;
  const Args args(instruction);
  const auto bad = [&](uint32_t slot) {
    const Tensor* tensor = FloatsIn(frame, slot);
    return tensor && !AllFinite(*tensor);
  };
  if (std::none_of(args.out.begin(), args.out.end(), bad)) return std::nullopt;

  BadNumbers in = before;
  for (uint32_t slot : args.in) {
    if (!args.Rewritten(slot)) Look(frame, slot, &in);
  }
  for (const bool nan : {true, false}) {
    if (!Wants(wanted, nan ? proto::FAULT_NAN : proto::FAULT_INF) || (nan ? in.nan : in.inf))
      continue;
    for (uint32_t slot : args.out) {
      const Tensor* tensor = FloatsIn(frame, slot);
      if (!tensor) continue;
      const NonFinite found = CountNonFinite(*tensor);
      const uint64_t count = nan ? found.nan : found.inf;
      if (!count) continue;
      std::string message =
          Cat("[", instruction.op->type(), "] made ", count, nan ? " NaN" : " Inf", " in ",
              frame.plan().slots[slot].name, " (", tensor->type().ToString(), ")");
      if (tensor->dims.rank() > 0) {
        message += ", first at " + IndexOf(nan ? found.first_nan : found.first_inf, tensor->dims);
      }
      return Finding{nan ? proto::STOP_NAN : proto::STOP_INF, std::move(message)};
    }
  }
  return std::nullopt;
}

}  // namespace opstep
