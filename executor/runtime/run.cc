// The only run loop, for programs and their blocks.
#include "runtime/frame.h"
#include "runtime/hook_state.h"
#include "runtime/interrupt.h"

namespace opstep {

void Frame::RunBlock(int block, uint64_t iteration) {
  Level level(this, block, iteration);
  EnterBlock(level);
  KernelContext& context = level.context;
  try {
    for (const Instruction& instruction : plan_->blocks[block].code) {
      context.call = &instruction;
      if (Watched(instruction)) [[unlikely]] {
        RunWatched(instruction, level);
      } else {
        instruction.run(context);
      }
    }
  } catch (const OpError&) {
    throw;  // it already names its place
  } catch (const std::exception& error) {
    Failed(level, error.what());
  }
  if (hook_ != nullptr) hook_->LeaveBlock(*this);
}

void Frame::RunWatched(const Instruction& instruction, Level& level) {
  const uint8_t watch = instruction.watch.load(std::memory_order_relaxed);
  level.instruction = &instruction;
  after_ = false;
  if (watch & watch::kPoll) PollHere();
  if ((watch & watch::kBefore) && hook_ != nullptr) hook_->BeforeOp(*this);
  instruction.run(level.context);
  // The hook may have asked for it only now, in BeforeOp.
  if (!(instruction.watch.load(std::memory_order_relaxed) & watch::kAfter) || hook_ == nullptr)
    return;
  level.instruction = &instruction;
  after_ = true;
  hook_->AfterOp(*this);
  after_ = false;
}

}  // namespace opstep
