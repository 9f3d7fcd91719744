// The search for a fault that an op has just made.
#include "debug/faults/fault_search.h"

#include <algorithm>
#include <span>

#include "base/sizes.h"
#include "base/summary.h"

namespace opstep {
namespace {

struct Args {
  std::span<const uint32_t> in, out;
  explicit Args(const Instruction& i) : in(i.args, i.n_in), out(i.args + i.n_in, i.n_out) {}
  bool Rewritten(uint32_t slot) const {
    return std::find(out.begin(), out.end(), slot) != out.end();
  }
  bool Rewrites(uint32_t slot) const { return std::find(in.begin(), in.end(), slot) != in.end(); }
};

bool Wants(const std::vector<FaultBinding>& wanted, proto::FaultKind kind) {
  return std::any_of(wanted.begin(), wanted.end(),
                     [&](const FaultBinding& fault) { return fault.kind == kind; });
}

// Null when there is no value to check.
const Tensor* FloatsIn(const FrameView& frame, uint32_t slot) {
  if (!slot || frame.StateOf(slot) != ValueState::kPresent) return nullptr;
  const Tensor& tensor = frame.tensor(slot);
  return tensor && IsFloat(tensor.dtype) ? &tensor : nullptr;
}

void FindBadNumbers(const FrameView& frame, uint32_t slot, bool sizes, BadNumbers* found) {
  const Tensor* tensor = FloatsIn(frame, slot);
  if (!tensor) return;
  if (sizes) found->largest = std::max(found->largest, LargestSize(*tensor));
  if (AllFinite(*tensor)) return;
  const NonFinite bad = CountNonFinite(*tensor);
  found->nan |= bad.nan > 0;
  found->inf |= bad.inf > 0;
}

std::string IndexText(const proto::Fault& fault) {
  std::string text;
  for (int64_t index : fault.index()) text += (text.empty() ? "" : ", ") + std::to_string(index);
  return "[" + text + "]";
}

void SetIndex(int64_t flat, const Dims& dims, proto::Fault* fault) {
  for (int axis = 0; axis < dims.rank(); ++axis) fault->add_index(0);
  for (int axis = dims.rank() - 1; axis >= 0; --axis) {
    fault->set_index(axis, flat % dims[axis]);
    flat /= dims[axis];
  }
}

bool Holds(const FaultBinding& fault, const FrameView& frame, std::string* failure) {
  if (!fault.condition) return true;
  try {
    return fault.condition->Test({frame, frame.top()});
  } catch (const Error& error) {
    *failure = Cat("; the condition of the filter failed: ", error.what());
    return true;
  }
}

// The number of faulty elements, and the first of them.
std::pair<uint64_t, int64_t> Count(const Tensor& tensor, const FaultBinding& fault) {
  if (fault.kind == proto::FAULT_OVERFLOW) {
    if (!(LargestSize(tensor) > fault.limit)) return {0, -1};
    const Beyond beyond = CountBeyond(tensor, fault.limit);
    return {beyond.count, beyond.first};
  }
  const NonFinite bad = CountNonFinite(tensor);
  if (fault.kind == proto::FAULT_NAN) return {bad.nan, bad.first_nan};
  return {bad.inf, bad.first_inf};
}

Finding Tell(const FrameView& frame, uint32_t slot, const FaultBinding& fault, uint64_t count,
             int64_t first) {
  const Tensor& tensor = frame.tensor(slot);
  Finding finding;
  finding.fault.set_kind(fault.kind);
  finding.fault.set_count(count);
  proto::VarInfo* variable = finding.fault.mutable_variable();
  variable->set_name(frame.plan().slots[slot].name);
  variable->set_dtype(static_cast<proto::DataType>(tensor.dtype));
  for (int64_t size : tensor.dims) variable->add_dims(size);
  SetIndex(first, tensor.dims, &finding.fault);
  std::string what;
  switch (fault.kind) {
    case proto::FAULT_NAN:
      finding.reason = proto::STOP_NAN;
      what = Cat(count, " NaN");
      break;
    case proto::FAULT_INF:
      finding.reason = proto::STOP_INF;
      what = Cat(count, " Inf");
      break;
    default:
      finding.reason = proto::STOP_OVERFLOW;
      what = Cat(count, count == 1 ? " element beyond " : " elements beyond ", fault.limit);
  }
  finding.message = Cat("[", frame.top().instruction->op->type(), "] made ", what, " in ",
                        variable->name(), " (", tensor.type().ToString(), ")");
  if (tensor.dims.rank() > 0) finding.message += ", first at " + IndexText(finding.fault);
  return finding;
}

}  // namespace

BadNumbers LookAtRewritten(const FrameView& frame, const std::vector<FaultBinding>& wanted) {
  const Args args(*frame.top().instruction);
  const bool sizes = Wants(wanted, proto::FAULT_OVERFLOW);
  BadNumbers found;
  for (uint32_t slot : args.in) {
    if (args.Rewritten(slot)) FindBadNumbers(frame, slot, sizes, &found);
  }
  return found;
}

std::optional<Finding> FindMade(const FrameView& frame, const std::vector<FaultBinding>& wanted,
                                const BadNumbers& before, bool* clean) {
  const Args args(*frame.top().instruction);
  const bool sizes = Wants(wanted, proto::FAULT_OVERFLOW);
  const bool others = Wants(wanted, proto::FAULT_NAN) || Wants(wanted, proto::FAULT_INF);
  bool bad = false;
  double largest = 0;
  for (uint32_t slot : args.out) {
    const Tensor* tensor = FloatsIn(frame, slot);
    if (!tensor) continue;
    // It shares the memory of the tensor that it copies: this op made nothing.
    const uint32_t original = frame.plan().slots[slot].copy_of;
    if (original != 0 && frame.tensor(original).data == tensor->data) continue;
    if (sizes) largest = std::max(largest, LargestSize(*tensor));
    if (others) bad |= !AllFinite(*tensor);
  }
  const bool beyond = std::any_of(wanted.begin(), wanted.end(), [&](const FaultBinding& fault) {
    return fault.kind == proto::FAULT_OVERFLOW && largest > fault.limit;
  });
  *clean = !bad && !beyond;
  if (*clean) return std::nullopt;

  BadNumbers in = before;
  for (uint32_t slot : args.in) {
    if (!args.Rewritten(slot)) FindBadNumbers(frame, slot, beyond, &in);
  }
  for (const proto::FaultKind kind : {proto::FAULT_NAN, proto::FAULT_INF, proto::FAULT_OVERFLOW}) {
    if ((kind == proto::FAULT_NAN && in.nan) || (kind == proto::FAULT_INF && in.inf)) continue;
    for (const FaultBinding& fault : wanted) {
      if (fault.kind != kind) continue;
      if (kind == proto::FAULT_OVERFLOW && in.largest > fault.limit) continue;
      for (uint32_t slot : args.out) {
        const Tensor* tensor = FloatsIn(frame, slot);
        if (!tensor) continue;
        const auto [count, first] = Count(*tensor, fault);
        if (!count) continue;
        std::string failure;
        if (!Holds(fault, frame, &failure)) break;
        Finding finding = Tell(frame, slot, fault, count, first);
        if (before.assumed && args.Rewrites(slot)) {
          finding.message += ", or code outside of the runs has put it there since the last run";
        }
        finding.message += failure;
        return finding;
      }
    }
  }
  return std::nullopt;
}

bool WantsError(const FrameView& frame, const std::vector<FaultBinding>& wanted,
                std::string* failure) {
  return std::any_of(wanted.begin(), wanted.end(),
                     [&](const FaultBinding& fault) { return Holds(fault, frame, failure); });
}

}  // namespace opstep
