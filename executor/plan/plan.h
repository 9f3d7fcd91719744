// Plan: a program compiled for the shapes of its feeds.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/tensor.h"
#include "ir/print.h"
#include "ir/program.h"
#include "ops/kernel.h"

namespace opstep {

// Where a slot's memory comes from.
enum class Storage : uint8_t {
  kNothing,   // slot 0: for every missing optional variable
  kArena,     // planned memory of the frame
  kScope,     // a persistable variable of the scope
  kFeed,      // memory given by the caller
  kFetch,     // memory handed to the caller
  kConstant,  // computed when the plan was made
  kStack,     // a stack of tensors of the frame; its type is that of an element
  kReader,    // a reader that an op makes; it has no type
};

struct SlotPlan {
  std::string name;
  int block = 0;
  VarType type;
  Storage storage = Storage::kArena;
  // Offsets in the frame's arena for the two shapes of the plan.
  size_t fast_offset = 0;
  size_t inspect_offset = 0;
  // Instruction of the slot's own block that first writes it; 0 for a feed.
  uint32_t first_write = 0;
  // Instruction of the slot's own block after which the fast shape releases its memory; kNever when
  // it does not.
  static constexpr uint32_t kNever = UINT32_MAX;
  uint32_t released_after = kNever;
  // In the fast shape an output of that instruction takes the memory over: then the value is gone.
  bool taken_in_place = false;
  // The slot that it permanently copies, or 0: in the inspectable shape both have the same memory.
  uint32_t copy_of = 0;
  bool copied = false;
  // An op hands it to its block or takes it from there: it is alive throughout the block.
  bool whole_block = false;
  // … and has a value from its start.
  bool given = false;
  // Scope variables: an op reads the value before any op of the program has written it.
  bool read_first = false;
  // Scope variables: an op fills it in the first run in a scope; the bool in this slot (its own,
  // for that bool) says that this is done; 0 when there is no such op.
  uint32_t filled_once = 0;
  // Scope variables: Program::OwnerOf.
  uint64_t owner = 0;
};

// Reasons for the loop not to simply run an instruction: bits of Instruction::watch.
namespace watch {
inline constexpr uint8_t kBefore = 1;  // the hook wants to see it before it runs
inline constexpr uint8_t kAfter = 2;   // … and after
inline constexpr uint8_t kPoll = 4;    // check whether the run was interrupted
}  // namespace watch

struct Instruction : KernelCall {
  uint32_t index = 0;  // in its block; in the padding of a KernelCall, which copies read too
  uint32_t op_id = 0;
  // Settable from any thread while the plan runs: never where a plain copy reads.
  mutable std::atomic<uint8_t> watch{0};
  const proto::OpDesc* op = nullptr;  // in Plan::desc

  Instruction() = default;
  Instruction(const Instruction& o) : KernelCall(o), index(o.index), op_id(o.op_id), op(o.op) {}
};
static_assert(sizeof(Instruction) == 48);

struct BlockPlan {
  int parent = -1;
  // The instruction of the parent that runs this block; 0 for block 0.
  uint32_t parent_index = 0;
  std::vector<Instruction> code;
  // An op decides at run time the number of rows that it hands to the block or an outer block.
  bool resized = false;
  // This block or the nearest outer block to which an op hands values whose types are known only at
  // run time, or -1. Before that the sizes of its variables are unknown.
  int shaped = -1;
  // Its instructions go through the frame's Variant.
  bool varies() const { return resized || shaped >= 0; }
};

// The memory layout of variables, once their types are known.
struct Typing {
  std::vector<SlotPlan> slots;
  // Values that are the same in every run. Their ops stay in the plan with nothing to do.
  std::unordered_map<uint32_t, Tensor> constants;
  // By op: the instruction that computed them, for a run in which one of them is edited.
  std::unordered_map<uint32_t, Kernel> folded;
  size_t fast_bytes = 0;
  size_t inspect_bytes = 0;
  // By slot and rows: values that a resized block saved on a stack, for the block that pops them.
  mutable std::map<std::pair<uint32_t, std::vector<int64_t>>, VarType> saved_types;
};

// A resized block, and the blocks in it, for one number of rows; or a shaped one for some types,
// with its own memory. A shaped variant has all slots of the plan; only those of the block and of
// blocks in it are valid.
struct Variant : Typing {
  uint64_t id = 0;  // unique in the process
  std::shared_ptr<const Variant> around;
  std::vector<VarType> given;                       // to a shaped block
  std::vector<std::pair<uint32_t, VarType>> types;  // of the blocks' slots
  std::vector<Instruction> code;
  std::vector<uint32_t> index;  // the number of each instruction of `code`: 0 … varying_calls - 1
  std::vector<std::shared_ptr<const void>> states;
};

enum class PlanShape : uint8_t { kFast, kInspect };

// A program compiled for some feeds with their shapes, and fetches: plain data, except for the
// watch bytes.
struct Plan : Typing, std::enable_shared_from_this<Plan> {
  uint64_t id = 0;  // unique in the process
  std::shared_ptr<const Program> program;
  uint32_t program_id = 0;
  std::string program_name;
  uint32_t program_version = 0;
  double compile_ms = 0;
  // Copy of the program as compiled: names, lines and attributes for the debugger.
  proto::ProgramDesc desc;
  Listing listing;

  std::vector<BlockPlan> blocks;
  std::vector<uint32_t> args;
  std::vector<std::shared_ptr<const void>> states;
  // Instructions of blocks that vary.
  uint32_t varying_calls = 0;

  std::vector<uint32_t> feed_slots;   // in the order of the feeds asked for
  std::vector<uint32_t> fetch_slots;  // in the order of the fetches asked for
  std::vector<uint32_t> scope_slots;

  // The slot of a variable as seen from a block, or 0.
  uint32_t FindSlot(int block, std::string_view name) const;
  // The user's frames that made an op, innermost first.
  std::vector<SourceFrame> StackOf(const proto::OpDesc& op) const;
  // " (train.py:41, op #12 fc_0.matmul)", for the end of error sentences.
  std::string PlaceOf(const Instruction& instruction) const;

  std::vector<std::unordered_map<std::string, uint32_t>> slot_of;  // one for each block
  // The number of ops that write a variable, by the block that owns it.
  std::map<std::pair<int, std::string>, int> writers;

  // Is a block `around` or inside it?
  bool Inside(int block, int around) const;

  // The key of a variant besides its block.
  struct VariantKey {
    std::vector<int64_t> rows;              // of the block and of the resized blocks around it
    std::vector<VarType> given;             // to a shaped block
    std::shared_ptr<const Variant> around;  // of the nearest shaped block around it
  };
  // Made on demand. `type_of`: the present types of slots outside the block.
  std::shared_ptr<const Variant> VariantOf(int block, const VariantKey& key,
                                           const std::function<VarType(uint32_t)>& type_of) const;

 private:
  mutable std::mutex variants_mutex_;
  mutable std::map<std::vector<int64_t>, std::shared_ptr<const Variant>> variants_;
};

struct FeedType {
  std::string name;
  VarType type;
};

// Gives the slots of a block, and of blocks in it that are not shaped, their offsets and release
// points, and `typing` the sizes of its arenas.
void PlanMemory(const Plan& plan, int block, Typing& typing);

// Verifies, infers all shapes, chooses kernels, plans memory. Feeds must have known sizes.
std::shared_ptr<Plan> Compile(std::shared_ptr<const Program> program,
                              const std::vector<FeedType>& feeds,
                              const std::vector<std::string>& fetches);

}  // namespace opstep
