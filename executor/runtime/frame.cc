// Frame: binding of feeds, parameters and memory; safe points; fetching.
#include "runtime/frame.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "runtime/hook_state.h"
#include "runtime/interrupt.h"

namespace opstep {

Frame::Level::Level(Frame* frame, int block, uint64_t iteration)
    : frame(frame), context(frame->slots_.data(), frame) {
  this->parent = frame->top_;
  this->block = block;
  this->iteration = iteration;
  // The loop does not record its position; the context of the outer block knows it.
  if (Level* outer = frame->top_)
    outer->instruction = static_cast<const Instruction*>(outer->context.call);
  frame->top_ = this;
}

Frame::Level::~Level() { frame->top_ = static_cast<Level*>(const_cast<Activation*>(parent)); }

Frame::Frame(std::shared_ptr<const Plan> plan)
    : plan_(std::move(plan)),
      slots_of_block_(plan_->blocks.size()),
      shapes_(plan_->blocks.size(), PlanShape::kFast),
      bound_(plan_->blocks.size(), false),
      opened_(plan_->blocks.size(), false),
      rows_(plan_->blocks.size(), -1),
      variants_(plan_->blocks.size()),
      resized_(plan_->varying_calls, nullptr),
      fast_arenas_(plan_->blocks.size()),
      inspect_arenas_(plan_->blocks.size()) {
  slots_.reserve(plan_->slots.size());
  for (size_t i = 0; i < plan_->slots.size(); ++i) {
    const SlotPlan& slot = plan_->slots[i];
    // Sizes inside a shaped block are known later.
    slots_.emplace_back(slot.type.dims.known() ? Tensor(slot.type) : Tensor());
    if (slot.storage == Storage::kArena)
      slots_of_block_[slot.block].push_back(static_cast<uint32_t>(i));
    if (slot.storage == Storage::kConstant)
      slots_.back().data = plan_->constants.at(static_cast<uint32_t>(i)).data;
    if (slot.storage == Storage::kStack) slots_.back().data = &stacks_.emplace_back();
  }
}

void Frame::Run(std::span<void* const> feeds, Scope& scope) {
  DisownAll();
  BindFeeds(feeds);
  std::vector<std::pair<uint32_t, Tensor>> made;
  bool begun = false;
  try {
    BindScope(scope, made);
    BindFetches();
    for (TensorStack& stack : stacks_) stack.Clear();
    step_ = plan_->program->runs().fetch_add(1) + 1;
    // One op takes too little time for an interruption.
    std::optional<ActiveRun> active;
    if (plan_->blocks.size() > 1 || plan_->blocks[0].code.size() > 1) active.emplace(*plan_);
    begun = true;
    RunBlock(0, 0);
  } catch (...) {
    // A startup program that failed must not leave memory that looks like values.
    for (auto& [slot, before] : made) {
      const std::string name = scope.KeyOf(plan_->slots[slot].name, OwnerOf(plan_->slots[slot]));
      // Values filled once are complete, whatever happened afterwards.
      const uint32_t flag = plan_->slots[slot].filled_once;
      if (begun && flag != 0 && *slots_[flag].as<bool>()) continue;
      if (before) {
        scope.Set(name, std::move(before));
      } else {
        scope.Erase(name);
      }
    }
    throw;
  }
}

void Frame::Fetch(std::span<Tensor> fetched) {
  for (size_t i = 0; i < plan_->fetch_slots.size(); ++i) {
    const uint32_t slot = plan_->fetch_slots[i];
    Tensor& from = slots_[slot];
    Tensor& to = fetched[i];
    if (plan_->slots[slot].storage == Storage::kStack) {
      to = static_cast<const TensorStack*>(from.data)->All(plan_->slots[slot].name,
                                                           plan_->slots[slot].type);
      continue;
    }
    if (plan_->slots[slot].storage == Storage::kReader) {
      to.data = from.data;
      to.owner = from.owner;
      continue;
    }
    if (plan_->slots[slot].storage == Storage::kFetch && from.owner != nullptr) {
      // The caller gets the memory; a second fetch of the same variable copies from it.
      to.dtype = from.dtype;
      to.dims = from.dims;
      to.numel = from.numel;
      to.data = from.data;
      to.owner = std::move(from.owner);
      continue;
    }
    to = Tensor::Allocate(from.type());
    if (from.bytes() != 0) std::memcpy(to.data, from.data, from.bytes());
  }
  for (const uint32_t slot : plan_->fetch_slots) {
    if (plan_->slots[slot].storage == Storage::kFetch) slots_[slot].data = nullptr;
  }
  // Files and threads are released before the next run.
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (plan_->slots[slot].storage == Storage::kReader) slots_[slot] = Tensor();
  }
}

void Frame::BindFeeds(std::span<void* const> feeds) {
  for (size_t i = 0; i < feeds.size(); ++i) slots_[plan_->feed_slots[i]].data = feeds[i];
}

void Frame::BindFetches() {
  for (const uint32_t slot : plan_->fetch_slots) {
    if (plan_->slots[slot].storage != Storage::kFetch || slots_[slot].owner != nullptr) continue;
    slots_[slot].owner = AllocateAligned(slots_[slot].bytes());
    slots_[slot].data = slots_[slot].owner.get();
  }
}

uint64_t Frame::OwnerOf(const SlotPlan& slot) const {
  return slot.owner == Program::kOfProgram ? plan_->program->owner() : slot.owner;
}

void Frame::BindScope(Scope& scope, std::vector<std::pair<uint32_t, Tensor>>& made) {
  for (const uint32_t index : plan_->scope_slots) {
    const SlotPlan& slot = plan_->slots[index];
    bool is_new = false;
    Tensor before;
    const uint64_t owner = OwnerOf(slot);
    Tensor value = slot.read_first
                       ? scope.Find(slot.name, owner)
                       : scope.FindOrAllocate(slot.name, slot.type, owner, is_new, before);
    if (is_new) made.emplace_back(index, std::move(before));
    OPSTEP_CHECK(value, "'", slot.name,
                 "' has no value yet: run the startup program first, or set it in the scope");
    OPSTEP_CHECK(value.type() == slot.type, "'", slot.name, "' is ", slot.type.ToString(),
                 " in program '", plan_->program_name, "' but ", value.type().ToString(),
                 " in the scope");
    slots_[index] = std::move(value);
    if (is_new && slot.filled_once == index) *slots_[index].as<bool>() = false;
  }
  for (const auto& [index, before] : made) {
    const uint32_t done = plan_->slots[index].filled_once;
    OPSTEP_CHECK(done == 0 || !*slots_[done].as<bool>(), "'", plan_->slots[index].name,
                 "' has no value, although '", plan_->slots[done].name,
                 "' says that it was filled in this scope: set it, or set '",
                 plan_->slots[done].name, "' to False to fill all of them again");
  }
}

// The start of a block is a safe point: none of its values is alive, so its shape may change.
void Frame::OpenBlock(int block) {
  if (hook_epoch_ != hook_epoch.load(std::memory_order_acquire)) [[unlikely]] {
    // A thread that may not be stopped sees the hook in a later run.
    if (!unwatched_runs) hook_epoch_ = hook_epoch.load(std::memory_order_acquire);
    hook_ = unwatched_runs ? nullptr : CurrentHook();
  }
  const bool inspects = hook_ != nullptr && hook_->Inspects();
  const PlanShape wanted = inspects ? PlanShape::kInspect : PlanShape::kFast;
  if (!bound_[block] || shapes_[block] != wanted) UseShape(block, wanted);
  opened_[block] = true;
}

void Frame::EnterBlock(Level& level) {
  if (!opened_[level.block]) OpenBlock(level.block);
  opened_[level.block] = false;
  if (!own_.empty()) [[unlikely]]
    RefreshConstants(level.block, 0);
  if (hook_ != nullptr) {
    after_ = false;
    hook_->EnterBlock(*this);
  }
}

const Typing& Frame::TypingOf(int block) const {
  const int shaped = plan_->blocks[block].shaped;
  if (shaped < 0 || variants_[shaped] == nullptr) return *plan_;
  return *variants_[shaped];
}

const SlotPlan& Frame::PlanOf(uint32_t slot) const {
  return TypingOf(plan_->slots[slot].block).slots[slot];
}

void Frame::ResizeBlock(int block, int64_t rows) {
  const int shaped = plan_->blocks[block].shaped;
  Plan::VariantKey key{{rows}, {}, shaped < 0 ? nullptr : variants_[shaped]};
  for (int b = plan_->blocks[block].parent; b >= 0; b = plan_->blocks[b].parent)
    key.rows.push_back(rows_[b]);
  rows_[block] = rows;
  UseVariant(block,
             plan_->VariantOf(block, key, [this](uint32_t slot) { return slots_[slot].type(); }));
}

void Frame::ShapeBlock(int block, std::span<const VarType> types) {
  if (variants_[block] != nullptr && std::ranges::equal(variants_[block]->given, types)) return;
  const int parent = plan_->blocks[block].parent;
  const int around = plan_->blocks[parent].shaped;
  Plan::VariantKey key{{}, {types.begin(), types.end()}, around < 0 ? nullptr : variants_[around]};
  for (int b = parent; b >= 0; b = plan_->blocks[b].parent) key.rows.push_back(rows_[b]);
  UseVariant(block,
             plan_->VariantOf(block, key, [this](uint32_t slot) { return slots_[slot].type(); }));
}

void Frame::UseVariant(int block, std::shared_ptr<const Variant> variant) {
  if (variant == variants_[block]) return;
  // The variant has calls for the inner blocks too: they must be resized again.
  for (size_t inner = block + 1; inner < variants_.size(); ++inner) {
    int b = static_cast<int>(inner);
    while (b > block) b = plan_->blocks[b].parent;
    if (b == block) variants_[inner] = nullptr;
  }
  const bool shaped = !variant->slots.empty();
  for (const auto& [slot, type] : variant->types) {
    slots_[slot].dtype = type.dtype;
    slots_[slot].dims = type.dims;
    slots_[slot].numel = type.dims.numel();
    if (!shaped) continue;
    bound_[plan_->slots[slot].block] = false;
    own_.erase(slot);
    const auto constant = variant->constants.find(slot);
    if (constant != variant->constants.end()) slots_[slot].data = constant->second.data;
  }
  for (size_t i = 0; i < variant->code.size(); ++i) resized_[variant->index[i]] = &variant->code[i];
  variants_[block] = std::move(variant);
}

void Frame::UseShape(int block, PlanShape shape) {
  const bool fast = shape == PlanShape::kFast;
  const int root = std::max(plan_->blocks[block].shaped, 0);
  const Typing& typing = TypingOf(block);
  const auto unbind = [&] {
    for (size_t b = 0; b < bound_.size(); ++b) {
      if (std::max(plan_->blocks[b].shaped, 0) == root) bound_[b] = false;
    }
  };
  if (fast && block == root && inspect_arenas_[root].memory != nullptr) {
    // Nobody looks any more: the memory that kept every value is freed, and sub-blocks are bound
    // again.
    inspect_arenas_[root] = {};
    unbind();
  }
  Arena& arena = (fast ? fast_arenas_ : inspect_arenas_)[root];
  const size_t bytes = fast ? typing.fast_bytes : typing.inspect_bytes;
  if (arena.memory == nullptr || arena.bytes < bytes) {
    // Huge pages make up for part of the cost of keeping every value.
    arena = {fast ? AllocateAligned(bytes) : AllocateHuge(bytes), bytes};
    unbind();
  }
  for (const uint32_t index : slots_of_block_[block]) {
    const SlotPlan& slot = typing.slots[index];
    if (slot.storage != Storage::kArena) continue;  // handed to the block, or constant here
    slots_[index].data =
        static_cast<char*>(arena.memory.get()) + (fast ? slot.fast_offset : slot.inspect_offset);
  }
  shapes_[block] = shape;
  bound_[block] = true;
}

void Frame::Failed(Level& level, const char* what) {
  const Instruction& instruction = *static_cast<const Instruction*>(level.context.call);
  level.instruction = &instruction;
  after_ = false;
  const OpError error(Cat("[", instruction.op->type(), "] ", what, plan_->PlaceOf(instruction)));
  // The frame of a run that failed is not used again.
  failed_ = true;
  if (hook_ != nullptr) hook_->OnError(*this, error);
  throw error;
}

bool Frame::WrittenInside(uint32_t slot, const Activation& level) const {
  for (const Activation* inner = top_; inner != &level; inner = inner->parent) {
    if (inner->instruction == nullptr) continue;
    const uint32_t end = inner->instruction->index + (inner == top_ && after_ ? 1 : 0);
    for (uint32_t i = 0; i < end; ++i) {
      const Instruction& one = plan_->blocks[inner->block].code[i];
      const uint32_t* outs = one.args + one.n_in;
      if (std::find(outs, outs + one.n_out, slot) != outs + one.n_out) return true;
    }
  }
  return false;
}

ValueState Frame::StateOf(uint32_t index, const Instruction** released_by) const {
  const SlotPlan& slot = PlanOf(index);
  if (slots_[index].data == nullptr || slot.storage == Storage::kStack ||
      slot.storage == Storage::kReader)
    return ValueState::kNotWritten;
  if (slot.storage == Storage::kFeed && slot.block == 0) return ValueState::kPresent;
  // The level of the slot's own block, and the level inside it, if the run is in a sub-block.
  const Activation* level = top_;
  const Activation* inner = nullptr;
  while (level != nullptr && level->block != slot.block) {
    inner = level;
    level = level->parent;
  }
  if (level == nullptr || level->instruction == nullptr) return ValueState::kNotWritten;
  const uint32_t at = level->instruction->index;
  const bool done = inner == nullptr && after_;
  if (slot.storage == Storage::kScope) {
    if (slot.read_first) return ValueState::kPresent;
    if (slot.filled_once != 0 && *slots_[slot.filled_once].as<bool>()) return ValueState::kPresent;
    if (slot.filled_once != 0 && inner != nullptr && at == slot.first_write)
      return WrittenInside(index, *level) ? ValueState::kPresent : ValueState::kNotWritten;
  }
  if (slot.given) return ValueState::kPresent;
  // A variable that an outer block also wrote is written before any sub-block runs.
  const bool written =
      slot.first_write < at || (slot.first_write == at && (done || inner != nullptr));
  if (!written) return ValueState::kNotWritten;
  if (slot.storage != Storage::kArena || shapes_[slot.block] == PlanShape::kInspect)
    return ValueState::kPresent;
  // A failed op may have overwritten part of the memory that it takes over.
  const bool taken = slot.taken_in_place && inner == nullptr && (after_ || failed_);
  const bool gone = at > slot.released_after || (at == slot.released_after && taken);
  if (!gone) return ValueState::kPresent;
  if (released_by != nullptr) *released_by = &plan_->blocks[slot.block].code[slot.released_after];
  return ValueState::kReleased;
}

}  // namespace opstep
