// Frame: the memory of one run of a plan.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/tensor_stack.h"
#include "runtime/executor.h"
#include "runtime/hook.h"

namespace opstep {

// The memory of one run of a plan, used by one thread at a time and kept for the next run.
class Frame final : public FrameEditor, public BlockRunner {
 public:
  explicit Frame(std::shared_ptr<const Plan> plan);

  // Runs the plan once, with the memory of its feeds. Values stay until the next Run.
  void Run(std::span<void* const> feeds, Scope& scope);
  // The fetched values of the latest run, each with its own memory: once after a run.
  void Fetch(std::span<Tensor> fetched);

  // One pass over a block's instructions: the loop that everything runs through.
  void RunBlock(int block, uint64_t iteration) override;
  void OpenBlock(int block) override;
  void ResizeBlock(int block, int64_t rows) override;
  const KernelCall& ResizedCall(uint32_t index) const override { return *resized_[index]; }
  void ShapeBlock(int block, std::span<const VarType> types) override;
  std::shared_ptr<DetachedBlock> Detach(int block, const std::vector<std::string>& inputs,
                                        const std::vector<std::string>& results) override;
  void Poll() override;
  void HoldInterrupts(bool held) override;

  const Plan& plan() const override { return *plan_; }
  PlanShape shape() const override { return shapes_[top_->block]; }
  uint64_t step() const override { return step_; }
  const Activation& top() const override { return *top_; }
  bool after() const override { return after_; }
  ValueState StateOf(uint32_t slot, const Instruction** released_by = nullptr) const override;
  const Tensor& tensor(uint32_t slot) const override { return slots_[slot]; }
  void Edit(uint32_t slot, const std::function<void(Tensor&)>& write) override;

 private:
  // An activation and the context of its kernels, which knows the instruction that runs.
  struct Level : Activation {
    Frame* frame;
    KernelContext context;
    Level(Frame* frame, int block, uint64_t iteration);
    ~Level();
  };

  void BindFeeds(std::span<void* const> feeds);
  // `made` gets the slots whose memory is new and has no value yet.
  uint64_t OwnerOf(const SlotPlan& slot) const;
  void BindScope(Scope& scope, std::vector<std::pair<uint32_t, Tensor>>& made);
  // Memory for values handed to the caller.
  void BindFetches();
  void EnterBlock(Level& level);
  void UseShape(int block, PlanShape shape);
  void UseVariant(int block, std::shared_ptr<const Variant> variant);
  // The layout of a block and of a slot for their current types.
  const Typing& TypingOf(int block) const;
  const SlotPlan& PlanOf(uint32_t slot) const;
  // Checks for an interruption in the middle of a run.
  void PollHere();
  void RunWatched(const Instruction& instruction, Level& level);
  // Have the blocks that run inside this level written the slot?
  bool WrittenInside(uint32_t slot, const Activation& level) const;
  [[noreturn]] void Failed(Level& level, const char* what);
  // The frame's own memory for a value that is shared with others.
  void Own(uint32_t slot);
  void Disown(uint32_t slot);
  void DisownAll();
  // Constants that the block makes from an instruction on: as in the plan, or computed again from
  // others that were edited.
  void RefreshConstants(int block, uint32_t from);

  const std::shared_ptr<const Plan> plan_;
  std::vector<Tensor> slots_;
  std::vector<std::vector<uint32_t>> slots_of_block_;
  // Never moved: slots point to them.
  std::deque<TensorStack> stacks_;
  std::vector<PlanShape> shapes_;
  std::vector<bool> bound_;
  // Opened, but not run yet.
  std::vector<bool> opened_;
  // Of blocks that vary: rows, the variant in use, and its calls.
  std::vector<int64_t> rows_;
  std::vector<std::shared_ptr<const Variant>> variants_;
  std::vector<const Instruction*> resized_;
  // By block, of block 0 and of shaped ones: the memory of the block and of those in it.
  struct Arena {
    std::shared_ptr<void> memory;
    size_t bytes = 0;
  };
  std::vector<Arena> fast_arenas_, inspect_arenas_;
  std::unordered_map<int, std::shared_ptr<DetachedBlock>> detached_;

  // Feeds, constants and values of shared memory that were edited in this run.
  std::unordered_map<uint32_t, std::shared_ptr<void>> own_;

  std::shared_ptr<Hook> hook_;
  uint64_t hook_epoch_ = 0;
  Level* top_ = nullptr;
  bool after_ = false;
  bool failed_ = false;
  // Interruptions wait for the next Poll of the outermost holder: the number of holders, and
  // whether one is waiting.
  int held_ = 0;
  bool interrupted_ = false;
  std::chrono::steady_clock::time_point polled_{};
  uint64_t step_ = 0;
};

}  // namespace opstep
