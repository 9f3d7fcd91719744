#include "debug/plans.h"

#include <algorithm>

#include "debug/slots.h"
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

// In which calls the blocks' ops were made, and how far the next op is in the same ones.
void SetBases(const Plan& plan, KnownPlan& known) {
  for (size_t b = 0; b < plan.blocks.size(); ++b) {
    const BlockPlan& block = plan.blocks[b];
    std::vector<OpFacts>& facts = known.facts[b];
    const MadeBy* runs = nullptr;  // the block
    if (block.parent >= 0) runs = known.facts[block.parent][block.parent_index].made.get();
    // Of the forward ops, or where there are none, of the gradients.
    const MadeBy* some[2] = {nullptr, nullptr};
    size_t bases[2] = {0, runs ? runs->size() : 0};
    const MadeBy* next = nullptr;
    for (size_t i = facts.size(); i-- > 0;) {
      OpFacts& op = facts[i];
      op.goes_on = next ? SameCalls(*op.made, *next) : runs ? SameCalls(*op.made, *runs) : 0;
      if (op.quiet || op.made->empty()) continue;
      next = op.made.get();
      const bool gradient = block.code[i].op->forward_op() != 0;
      size_t& base = bases[gradient];
      const MadeBy*& other = some[gradient];
      base = other ? std::min(base, SameCalls(*other, *op.made)) : op.made->size();
      if (!other) other = op.made.get();
    }
    known.base.push_back(some[0] ? bases[0] : bases[1]);
  }
}

}  // namespace

void KnownPlan::ClearWork() {
  for (std::vector<OpFacts>& block : facts) {
    for (OpFacts& op : block) op.work.reset();
  }
  taps.clear();
}

OpWork& KnownPlan::WorkAt(size_t block, uint32_t index) {
  std::shared_ptr<OpWork>& work = facts[block][index].work;
  if (!work) work = std::make_shared<OpWork>();
  return *work;
}

PythonNames KnownPlan::NamesAt(const Plan& plan, const proto::OpDesc& op) const {
  if (traced && python) return *python;
  return PythonNames::Made(plan, op, static_cast<size_t>(op.stack_size()), false);
}

KnownPlan* Plans::Find(uint64_t plan_id) const {
  const auto it = plans_.find(plan_id);
  return it == plans_.end() ? nullptr : it->second.get();
}

KnownPlan& Plans::Add(const Plan& plan) {
  auto known = std::make_unique<KnownPlan>();
  known->plan = plan.weak_from_this();
  known->program_id = plan.program_id;
  for (const BlockPlan& block : plan.blocks) {
    known->depth.push_back(block.parent < 0 ? 0 : known->depth[block.parent] + 1);
    std::vector<OpFacts>& facts = known->facts.emplace_back(block.code.size());
    for (const Instruction& instruction : block.code) {
      OpFacts& op = facts[instruction.index];
      op.made = std::make_shared<const MadeBy>(MadeByOf(plan, *instruction.op));
      op.quiet = IsQuiet(*instruction.op);
      op.stop = instruction.op->stop();
      // The ops inside a body are looked at themselves; the op that runs it makes nothing.
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
  SetBases(plan, *known);
  if (IsTraced(plan)) {
    const proto::OpDesc& op = plan.desc.blocks(0).ops(0);
    known->traced = true;
    traced_[op.id()] = plan.weak_from_this();
    ++traced_count_;
  }
  ForEach([](const Plan&, KnownPlan&) {});
  newest_[plan.program_id] = plan.id;
  return *(plans_[plan.id] = std::move(known));
}

void Plans::ForEach(const std::function<void(const Plan&, KnownPlan&)>& f) {
  for (auto it = plans_.begin(); it != plans_.end();) {
    if (const std::shared_ptr<const Plan> plan = it->second->plan.lock()) {
      f(*plan, *it->second);
      ++it;
    } else {
      it = plans_.erase(it);
    }
  }
}

std::shared_ptr<const Plan> Plans::OfProgram(uint32_t program_id) {
  if (const auto newest = newest_.find(program_id); newest != newest_.end()) {
    if (const KnownPlan* known = Find(newest->second)) {
      if (auto plan = known->plan.lock()) return plan;
    }
  }
  std::shared_ptr<const Plan> found;
  for (const auto& [id, known] : plans_) {
    if (known->program_id != program_id) continue;
    auto plan = known->plan.lock();
    if (plan && (!found || plan->id > found->id)) found = std::move(plan);
  }
  return found;
}

std::vector<std::shared_ptr<const Plan>> Plans::Traced() {
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

void Plans::Watch(const Plan& plan, const KnownPlan& known) const {
  for (size_t block = 0; block < plan.blocks.size(); ++block) {
    for (const Instruction& instruction : plan.blocks[block].code) {
      const OpFacts& facts = known.facts[block][instruction.index];
      uint8_t bits = known.armed || facts.stop ? watch::kBefore : 0;
      if (known.after_armed) bits |= watch::kAfter;
      // One that runs blocks has begun when somebody inside wants to see the run's end.
      const bool last = block == 0 && &instruction == &plan.blocks[0].code.back();
      if (last && (known.end_watched || facts.runs_blocks)) bits |= watch::kAfter;
      if (const OpWork* work = facts.work.get()) {
        const bool rewritten = !work->faults.empty() && facts.rewrites_input;
        if (!work->before.empty() || !work->written.empty() || rewritten) bits |= watch::kBefore;
        if (!work->after.empty() || !work->faults.empty()) bits |= watch::kAfter;
        if (known.tapped > 0 && !work->taps_before.empty()) bits |= watch::kBefore;
        if (known.tapped > 0 && !work->taps_after.empty()) bits |= watch::kAfter;
      }
      SetWatch(instruction, bits);
    }
  }
}

void Plans::Clear() {
  ForEach([](const Plan& plan, KnownPlan&) {
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

proto::ProgramEvent Describe(const Plan& plan) {
  proto::ProgramEvent event;
  event.set_program(plan.program_id);
  event.set_name(plan.program_name);
  event.set_version(plan.program_version);
  int ops = 0;
  for (const proto::BlockDesc& block : plan.desc.blocks()) ops += block.ops_size();
  event.set_op_count(static_cast<uint32_t>(ops));
  event.set_block_count(static_cast<uint32_t>(plan.desc.blocks_size()));
  event.set_planned_bytes(plan.fast_bytes);
  event.set_compile_ms(plan.compile_ms);
  return event;
}

proto::ProgramEvent Describe(Plans& plans) {
  proto::ProgramEvent event;
  event.set_program(TracedProgram());
  for (const std::shared_ptr<const Plan>& plan : plans.Traced()) {
    event.set_name(plan->program_name);
    event.set_op_count(event.op_count() + 1);
    event.set_planned_bytes(event.planned_bytes() + plan->fast_bytes);
    event.set_compile_ms(event.compile_ms() + plan->compile_ms);
  }
  event.set_version(plans.traced());
  event.set_block_count(1);
  return event;
}

void FillOpInfo(const Plan& plan, int block, const proto::OpDesc& op, proto::OpInfo* info) {
  info->set_id(op.id());
  info->set_name(op.name());
  info->set_type(op.type());
  info->set_block(static_cast<uint32_t>(block));
  if (const auto line = plan.listing.line_of.find(op.id()); line != plan.listing.line_of.end()) {
    info->set_listing_line(line->second);
  }
  for (const proto::Slot& slot : op.outputs()) {
    for (const std::string& name : slot.vars()) {
      const uint32_t index = plan.FindSlot(block, name);
      if (!index) continue;
      const VarType& type = plan.slots[index].type;
      proto::VarInfo* var = info->add_outputs();
      var->set_name(name);
      if (plan.slots[index].storage == Storage::kReader) continue;  // it has no dtype
      var->set_dtype(static_cast<proto::DataType>(type.dtype));
      for (int64_t size : type.dims) var->add_dims(size);
    }
  }
  info->set_forward_op(op.forward_op());
  for (const SourceFrame& frame : plan.StackOf(op)) {
    proto::SourceLine* line = info->add_stack();
    line->set_file(frame.file);
    line->set_line(frame.line);
    line->set_function(frame.function);
  }
  for (const proto::Attr& attr : op.attrs()) {
    const auto add = [&](int64_t block) {
      proto::BlockInfo* run = info->add_blocks();
      run->set_block(static_cast<uint32_t>(block));
      run->set_name(attr.name());
    };
    if (attr.value_case() == proto::Attr::kBlock) add(attr.block());
    for (const int64_t block : attr.blocks().values()) add(block);
  }
}

}  // namespace opstep
