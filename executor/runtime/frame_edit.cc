// Frame: edits of a stopped run.
#include <algorithm>
#include <cstring>

#include "runtime/frame.h"

namespace opstep {

void Frame::Edit(uint32_t slot, const std::function<void(Tensor&)>& write) {
  const SlotPlan& plan = PlanOf(slot);
  const Storage storage = plan.storage;
  const bool shared = storage == Storage::kFeed || storage == Storage::kConstant ||
                      plan.copy_of != 0 || plan.copied;
  const auto own = own_.find(slot);
  if (shared && (own == own_.end() || own->second.get() != slots_[slot].data)) {
    const void* before = slots_[slot].data;
    Own(slot);
    if (slots_[slot].bytes() != 0) std::memcpy(slots_[slot].data, before, slots_[slot].bytes());
  }
  write(slots_[slot]);
  if (storage != Storage::kConstant) return;
  // Instructions that have run saw the old value. Blocks entered later check for themselves.
  for (const Activation* level = top_; level != nullptr; level = level->parent) {
    const bool still_to_run = level == top_ && !after_;
    RefreshConstants(level->block, level->instruction->index + (still_to_run ? 0 : 1));
  }
}

void Frame::Own(uint32_t slot) {
  std::shared_ptr<void>& own = own_[slot];
  if (own == nullptr) own = AllocateAligned(slots_[slot].bytes());
  slots_[slot].data = own.get();
}

void Frame::Disown(uint32_t slot) {
  if (own_.erase(slot) == 0) return;
  slots_[slot].data = TypingOf(plan_->slots[slot].block).constants.at(slot).data;
}

void Frame::DisownAll() {
  for (const auto& [slot, own] : own_) {
    const int block = plan_->slots[slot].block;
    if (PlanOf(slot).storage == Storage::kArena) {
      bound_[block] = false;
      continue;
    }
    const auto& constants = TypingOf(block).constants;
    const auto constant = constants.find(slot);
    slots_[slot].data = constant == constants.end() ? nullptr : constant->second.data;
  }
  own_.clear();
}

void Frame::RefreshConstants(int block, uint32_t from) {
  const std::vector<Instruction>& code = plan_->blocks[block].code;
  const std::unordered_map<uint32_t, Kernel>& all = TypingOf(block).folded;
  for (size_t i = from; i < code.size(); ++i) {
    const auto folded = all.find(code[i].op_id);
    if (folded == all.end()) continue;
    const uint32_t *in = code[i].args, *out = in + code[i].n_in;
    const bool changed = std::any_of(in, out, [&](uint32_t slot) { return own_.count(slot) != 0; });
    for (int o = 0; o < code[i].n_out; ++o) {
      if (out[o] != 0) changed ? Own(out[o]) : Disown(out[o]);
    }
    if (!changed) continue;
    KernelCall call = code[i];
    call.run = folded->second.run;
    call.state = folded->second.state.get();
    KernelContext context(slots_.data(), this);
    context.call = &call;
    call.run(context);
  }
}

}  // namespace opstep
