// PlanMemory: places in the arena for the values of a block.
#include <algorithm>
#include <unordered_map>

#include "ops/infer.h"
#include "ops/op.h"
#include "plan/plan.h"

namespace opstep {
namespace {

// Bytes that are in use from one instruction of a block to another.
struct Buffer {
  uint32_t first = SlotPlan::kNever;
  uint32_t last = 0;
  size_t bytes = 0;
  size_t offset = 0;
  std::vector<uint32_t> slots;
  int block = -1;  // or all of a sub-block's memory
};

class Planner {
 public:
  Planner(const Plan& plan, int root, Typing& typing)
      : plan_(plan), root_(root), typing_(typing), home_(plan.slots.size(), -1) {}

  void Run() {
    typing_.fast_bytes = Layout(root_);
    LayoutInspectable();
  }

 private:
  // Is the block's memory laid out here? A shaped one's is elsewhere.
  bool Here(int block) const {
    return plan_.blocks[block].shaped == plan_.blocks[root_].shaped && plan_.Inside(block, root_);
  }

  static size_t Bytes(const SlotPlan& slot) {
    return static_cast<size_t>(slot.type.dims.numel()) * SizeOf(slot.type.dtype);
  }

  // Every value has its own memory, or the memory of the value that it copies.
  void LayoutInspectable() {
    const std::unordered_map<uint32_t, uint32_t> copies = Copies();
    for (uint32_t i = 0; i < typing_.slots.size(); ++i) {
      SlotPlan& slot = typing_.slots[i];
      if (slot.storage != Storage::kArena || copies.count(i) != 0 || !Here(slot.block)) continue;
      slot.inspect_offset = typing_.inspect_bytes;
      typing_.inspect_bytes += Align(Bytes(slot));
    }
    for (const auto& [copy, original] : copies) {
      uint32_t first = original;
      while (copies.count(first) != 0) first = copies.at(first);
      typing_.slots[copy].inspect_offset = typing_.slots[first].inspect_offset;
      typing_.slots[copy].copy_of = original;
      typing_.slots[original].copied = true;
    }
  }

  // Permanent copies: both variables are written once, in the same block.
  std::unordered_map<uint32_t, uint32_t> Copies() const {
    std::vector<int> writers(typing_.slots.size());
    for (const BlockPlan& block : plan_.blocks) {
      for (const Instruction& one : block.code) {
        for (int o = 0; o < one.n_out; ++o) ++writers[one.args[one.n_in + o]];
      }
    }
    const auto written_once = [&](uint32_t slot, int block) {
      const SlotPlan& plan = typing_.slots[slot];
      return plan.storage == Storage::kArena && plan.block == block && !plan.whole_block &&
             writers[slot] == 1;
    };
    std::unordered_map<uint32_t, uint32_t> copies;
    for (size_t b = 0; b < plan_.blocks.size(); ++b) {
      const int block = static_cast<int>(b);
      if (plan_.blocks[b].resized || !Here(block)) continue;
      for (const Instruction& one : plan_.blocks[b].code) {
        const std::vector<Arg> inputs = InputArgs(*one.op, block);
        const std::vector<Arg> outputs = OutputArgs(*one.op, block);
        for (size_t o = 0; o < outputs.size(); ++o) {
          const uint32_t to = one.args[one.n_in + o];
          if (!outputs[o].slot->unchanged || !written_once(to, block)) continue;
          for (size_t i = 0; i < inputs.size(); ++i) {
            const uint32_t from = one.args[i];
            if (inputs[i].slot->name == outputs[o].slot->inplace_of && written_once(from, block) &&
                Bytes(typing_.slots[from]) == Bytes(typing_.slots[to]))
              copies[to] = from;
          }
        }
      }
    }
    return copies;
  }

  // Lays out a block's own variables and, inside, those of its sub-blocks. Gives the size; offsets
  // are relative to the block's memory.
  size_t Layout(int block) {
    std::unordered_map<uint32_t, Buffer> uses;
    std::vector<Buffer> buffers;
    std::unordered_map<uint32_t, uint32_t> writes;
    CollectUses(block, block, 0, uses, writes);
    for (const auto& [slot, index] : writes) typing_.slots[slot].first_write = index;
    for (const Instruction& instruction : plan_.blocks[block].code) {
      for (const int child : OpView(*instruction.op).Blocks()) {
        if (!Here(child)) continue;
        const size_t bytes = Layout(child);
        buffers.push_back({.first = instruction.index,
                           .last = instruction.index,
                           .bytes = bytes,
                           .slots = {},
                           .block = child});
      }
    }
    const uint32_t end = static_cast<uint32_t>(plan_.blocks[block].code.size());
    for (size_t slot = 0; slot < typing_.slots.size(); ++slot) {
      const SlotPlan& plan = typing_.slots[slot];
      if (plan.block == block && plan.whole_block && plan.storage == Storage::kArena)
        uses[static_cast<uint32_t>(slot)].first = 0;
    }
    std::vector<uint32_t> order;
    for (auto& [slot, use] : uses) {
      const bool kept = typing_.slots[slot].whole_block;
      typing_.slots[slot].released_after = kept ? SlotPlan::kNever : use.last;
      if (kept) use.last = end;
      order.push_back(slot);
    }
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(uses.at(a).first, a) < std::pair(uses.at(b).first, b);
    });
    for (const uint32_t slot : order) {
      const Buffer& use = uses.at(slot);
      if (TakeOver(block, slot, use, buffers)) continue;
      home_[slot] = static_cast<int>(buffers.size());
      buffers.push_back({.first = use.first,
                         .last = use.last,
                         .bytes = Align(Bytes(typing_.slots[slot])),
                         .slots = {slot}});
    }
    const size_t total = Place(buffers);
    for (const Buffer& buffer : buffers) {
      for (const uint32_t slot : buffer.slots) typing_.slots[slot].fast_offset = buffer.offset;
      if (buffer.block >= 0) Shift(buffer.block, buffer.offset);
    }
    return total;
  }

  // First and last use of the variables of `home`, in its instructions; a use in a sub-block counts
  // at the instruction that runs the sub-block.
  void CollectUses(int home, int block, uint32_t at, std::unordered_map<uint32_t, Buffer>& uses,
                   std::unordered_map<uint32_t, uint32_t>& writes) const {
    for (const Instruction& instruction : plan_.blocks[block].code) {
      const uint32_t index = block == home ? instruction.index : at;
      const std::vector<bool> shape_only = ShapeOnly(instruction);
      for (int i = 0; i < instruction.n_in + instruction.n_out; ++i) {
        const uint32_t slot = instruction.args[i];
        const SlotPlan& plan = typing_.slots[slot];
        if (plan.block != home || plan.storage == Storage::kNothing) continue;
        if (i >= instruction.n_in) {
          const auto [it, added] = writes.emplace(slot, index);
          it->second = std::min(it->second, index);
        }
        if (plan.storage != Storage::kArena) continue;
        if (i < instruction.n_in && shape_only[i]) continue;
        Buffer& use = uses[slot];
        use.first = std::min(use.first, index);
        use.last = std::max(use.last, index);
      }
      for (const int child : OpView(*instruction.op).Blocks())
        CollectUses(home, child, index, uses, writes);
    }
  }

  static std::vector<bool> ShapeOnly(const Instruction& instruction) {
    std::vector<bool> flags;
    for (const Arg& arg : InputArgs(*instruction.op, 0)) flags.push_back(arg.slot->shape_only);
    return flags;
  }

  // Puts an output in the memory of an input that no later op needs.
  bool TakeOver(int block, uint32_t slot, const Buffer& use, std::vector<Buffer>& buffers) {
    if (typing_.slots[slot].whole_block) return false;
    const Instruction& writer = plan_.blocks[block].code[use.first];
    const std::vector<Arg> inputs = InputArgs(*writer.op, block);
    const std::vector<Arg> outputs = OutputArgs(*writer.op, block);
    for (size_t o = 0; o < outputs.size(); ++o) {
      const std::string& from_slot = outputs[o].slot->inplace_of;
      if (writer.args[writer.n_in + o] != slot || from_slot.empty()) continue;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].slot->name != from_slot) continue;
        const uint32_t input = writer.args[i];
        SlotPlan& from = typing_.slots[input];
        const bool dies = from.storage == Storage::kArena && from.block == block &&
                          home_[input] >= 0 && from.released_after == writer.index &&
                          !from.taken_in_place;
        if (!dies || from.type != typing_.slots[slot].type) continue;
        Buffer& buffer = buffers[home_[input]];
        buffer.last = std::max(buffer.last, use.last);
        buffer.slots.push_back(slot);
        home_[slot] = home_[input];
        from.taken_in_place = true;
        return true;
      }
    }
    return false;
  }

  // Large buffers first, each at the lowest place that is free during its life.
  static size_t Place(std::vector<Buffer>& buffers) {
    std::vector<Buffer*> order;
    for (Buffer& buffer : buffers) order.push_back(&buffer);
    std::stable_sort(order.begin(), order.end(),
                     [](Buffer* a, Buffer* b) { return a->bytes > b->bytes; });
    std::vector<Buffer*> placed;  // by offset
    size_t total = 0;
    for (Buffer* buffer : order) {
      size_t offset = 0;
      for (const Buffer* other : placed) {
        if (other->last < buffer->first || buffer->last < other->first) continue;
        if (offset + buffer->bytes <= other->offset) break;
        offset = std::max(offset, other->offset + other->bytes);
      }
      buffer->offset = offset;
      total = std::max(total, offset + buffer->bytes);
      placed.insert(std::upper_bound(placed.begin(), placed.end(), buffer,
                                     [](Buffer* a, Buffer* b) { return a->offset < b->offset; }),
                    buffer);
    }
    return total;
  }

  void Shift(int block, size_t by) {
    for (SlotPlan& slot : typing_.slots) {
      if (slot.block == block && slot.storage == Storage::kArena) slot.fast_offset += by;
    }
    for (size_t child = 0; child < plan_.blocks.size(); ++child) {
      const int inner = static_cast<int>(child);
      if (plan_.blocks[child].parent == block && Here(inner)) Shift(inner, by);
    }
  }

  const Plan& plan_;
  const int root_;
  Typing& typing_;
  // Index of a slot's buffer while its block is laid out.
  std::vector<int> home_;
};

}  // namespace

void PlanMemory(const Plan& plan, int block, Typing& typing) { Planner(plan, block, typing).Run(); }

}  // namespace opstep
