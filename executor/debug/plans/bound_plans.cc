// BoundPlans: facts about the ops of each plan, and its watch bytes.
#include "debug/plans/bound_plans.h"

#include <algorithm>

#include "debug/plans/slots.h"
#include "ops/op.h"
#include "runtime/traced_program.h"

namespace opstep {
namespace {

constexpr uint8_t kOurs = watch::kBefore | watch::kAfter;

void SetWatch(const Instruction& instruction, uint8_t bits) {
  std::atomic<uint8_t>& byte = instruction.watch;
  if ((byte.load(std::memory_order_relaxed) & kOurs) == bits) return;
  // The other bits belong to the run loop.
  if (bits) byte.fetch_or(bits, std::memory_order_relaxed);
  if (bits != kOurs) {
    byte.fetch_and(static_cast<uint8_t>(~(kOurs & ~bits)), std::memory_order_relaxed);
  }
}

// The calls in which the blocks' ops were made, and how many of them the next op shares.
void SetBases(const Plan& plan, BoundPlan& bound) {
  for (size_t b = 0; b < plan.blocks.size(); ++b) {
    const BlockPlan& block = plan.blocks[b];
    std::vector<OpFacts>& facts = bound.facts[b];
    const MadeBy* runs = nullptr;  // the block
    if (block.parent >= 0) runs = bound.facts[block.parent][block.parent_index].made.get();
    // Of the forward ops, or of the gradients if there are none.
    const MadeBy* some[2] = {nullptr, nullptr};
    size_t bases[2] = {0, runs ? runs->size() : 0};
    const MadeBy* next = nullptr;
    for (size_t i = facts.size(); i-- > 0;) {
      OpFacts& op = facts[i];
      op.goes_on = next ? SameCalls(*op.made, *next) : runs ? SameCalls(*op.made, *runs) : 0;
      if (op.quiet || op.made->empty()) continue;
      next = op.made.get();
      const bool gradient = IsGradient(*block.code[i].op);
      size_t& base = bases[gradient];
      const MadeBy*& other = some[gradient];
      base = other ? std::min(base, SameCalls(*other, *op.made)) : op.made->size();
      if (!other) other = op.made.get();
    }
    bound.base.push_back(some[0] ? bases[0] : bases[1]);
  }
}

}  // namespace

void BoundPlan::ClearWork() {
  for (std::vector<OpFacts>& block : facts) {
    for (OpFacts& op : block) op.work.reset();
  }
  taps.clear();
}

OpWork& BoundPlan::WorkAt(size_t block, uint32_t index) {
  std::shared_ptr<OpWork>& work = facts[block][index].work;
  if (!work) work = std::make_shared<OpWork>();
  return *work;
}

PythonNames BoundPlan::NamesAt(const Plan& plan, const proto::OpDesc& op) const {
  if (traced && python) return *python;
  return PythonNames::Made(plan, op, static_cast<size_t>(op.stack_size()), false);
}

BoundPlan* BoundPlans::Find(uint64_t plan_id) const {
  const auto it = plans_.find(plan_id);
  return it == plans_.end() ? nullptr : it->second.get();
}

BoundPlan& BoundPlans::Add(const Plan& plan) {
  auto bound = std::make_unique<BoundPlan>();
  bound->plan = plan.weak_from_this();
  bound->program_id = plan.program_id;
  for (const BlockPlan& block : plan.blocks) {
    bound->depth.push_back(block.parent < 0 ? 0 : bound->depth[block.parent] + 1);
    std::vector<OpFacts>& facts = bound->facts.emplace_back(block.code.size());
    for (const Instruction& instruction : block.code) {
      OpFacts& op = facts[instruction.index];
      op.made = std::make_shared<const MadeBy>(MadeByOf(plan, *instruction.op));
      op.quiet = IsQuiet(*instruction.op);
      op.stop = instruction.op->stop();
      // The ops inside a body are checked themselves; the op that runs it makes nothing.
      op.runs_blocks = !OpView(*instruction.op).Blocks().empty();
      if (op.runs_blocks) continue;
      const uint32_t* in = instruction.args;
      const uint32_t* out = in + instruction.n_in;
      for (const uint32_t* slot = out; slot != out + instruction.n_out; ++slot) {
        const SlotPlan& plan_of = plan.slots[*slot];
        if (!IsFloat(plan_of.type.dtype) || !HoldsTensor(plan_of)) continue;
        op.float_outputs = true;
        if (std::find(in, out, *slot) != out) op.rewrites_input = true;
      }
    }
  }
  SetBases(plan, *bound);
  if (IsTraced(plan)) {
    const proto::OpDesc& op = plan.desc.blocks(0).ops(0);
    bound->traced = true;
    traced_[op.id()] = plan.weak_from_this();
    ++traced_count_;
  }
  ForEach([](const Plan&, BoundPlan&) {});
  newest_[plan.program_id] = plan.id;
  return *(plans_[plan.id] = std::move(bound));
}

void BoundPlans::ForEach(const std::function<void(const Plan&, BoundPlan&)>& f) {
  for (auto it = plans_.begin(); it != plans_.end();) {
    if (const std::shared_ptr<const Plan> plan = it->second->plan.lock()) {
      f(*plan, *it->second);
      ++it;
    } else {
      it = plans_.erase(it);
    }
  }
}

std::shared_ptr<const Plan> BoundPlans::OfProgram(uint32_t program_id) {
  if (const auto newest = newest_.find(program_id); newest != newest_.end()) {
    if (const BoundPlan* bound = Find(newest->second)) {
      if (auto plan = bound->plan.lock()) return plan;
    }
  }
  std::shared_ptr<const Plan> found;
  for (const auto& [id, bound] : plans_) {
    if (bound->program_id != program_id) continue;
    auto plan = bound->plan.lock();
    if (plan && (!found || plan->id > found->id)) found = std::move(plan);
  }
  return found;
}

std::vector<std::shared_ptr<const Plan>> BoundPlans::Traced() {
  std::vector<std::shared_ptr<const Plan>> plans;
  for (auto it = traced_.begin(); it != traced_.end();) {
    if (auto plan = it->second.lock()) {
      plans.push_back(std::move(plan));
      ++it;
    } else {
      it = traced_.erase(it);
    }
  }
  return plans;
}

void BoundPlans::Watch(const Plan& plan, const BoundPlan& bound) const {
  for (size_t block = 0; block < plan.blocks.size(); ++block) {
    for (const Instruction& instruction : plan.blocks[block].code) {
      const OpFacts& facts = bound.facts[block][instruction.index];
      uint8_t bits = bound.armed || facts.stop ? watch::kBefore : 0;
      if (bound.after_armed) bits |= watch::kAfter;
      // An op that runs blocks has already begun when a step inside asks for the run's end.
      const bool last = block == 0 && &instruction == &plan.blocks[0].code.back();
      if (last && (bound.end_watched || facts.runs_blocks)) bits |= watch::kAfter;
      if (const OpWork* work = facts.work.get()) {
        const bool rewritten = !work->faults.empty() && facts.rewrites_input;
        if (!work->before.empty() || !work->written.empty() || rewritten) bits |= watch::kBefore;
        if (!work->after.empty() || !work->faults.empty()) bits |= watch::kAfter;
        if (bound.tapped > 0 && !work->taps_before.empty()) bits |= watch::kBefore;
        if (bound.tapped > 0 && !work->taps_after.empty()) bits |= watch::kAfter;
      }
      SetWatch(instruction, bits);
    }
  }
}

void BoundPlans::Clear() {
  ForEach([](const Plan& plan, BoundPlan&) {
    for (const BlockPlan& block : plan.blocks) {
      for (const Instruction& instruction : block.code) SetWatch(instruction, 0);
    }
  });
  plans_.clear();
  newest_.clear();
  traced_.clear();
}

bool IsQuiet(const proto::OpDesc& op) {
  const OpDef* def = FindOp(op.type());
  return def != nullptr && def->role == OpRole::kPush;
}

}  // namespace opstep
