// The interface of kernels: context, blocks that they may run, and preparation by a plan.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "ir/op_view.h"

namespace opstep {

class KernelContext;
using KernelFn = void (*)(KernelContext&);

// A block that runs separately from the run around it, in its own memory, on one thread at a time.
class DetachedBlock {
 public:
  virtual ~DetachedBlock() = default;
  // Values for the variables that it was detached with; returns the results, which own their
  // memory.
  virtual std::vector<Tensor> Run(const std::vector<Tensor>& values) = 0;
};

// Runs the ops of a sub-block; control-flow kernels get it through their context.
class BlockRunner {
 public:
  virtual void RunBlock(int block, uint64_t iteration) = 0;
  // Prepares the block's memory for the next RunBlock, so that values can be handed to it.
  virtual void OpenBlock(int block) = 0;
  // From now on the variables that the op hands to the block have this many rows.
  virtual void ResizeBlock(int block, int64_t rows) = 0;
  // From now on the variables that the op hands to the block, in the order of its outputs, have
  // these types. They have no memory: the op gives them the tensors themselves.
  virtual void ShapeBlock(int block, std::span<const VarType> types) = 0;
  // The block as a function from `inputs`, its own variables, to `results`. It reads nothing else.
  virtual std::shared_ptr<DetachedBlock> Detach(int block, const std::vector<std::string>& inputs,
                                                const std::vector<std::string>& results) = 0;
  // Checks whether the run was interrupted; throws to end it. For kernels that wait.
  virtual void Poll() = 0;
  // While `held`, an interruption ends the run only at the next Poll. A second one ends it at once.
  virtual void HoldInterrupts(bool held) = 0;
  // The call that replaces a call of a resized block at its present size.
  virtual const struct KernelCall& ResizedCall(uint32_t index) const = 0;

 protected:
  ~BlockRunner() = default;
};

// The part of an instruction that its kernel sees.
struct KernelCall {
  KernelFn run = nullptr;
  // The result of `prepare`, or null.
  const void* state = nullptr;
  // Slots of the frame: inputs in schema order, then outputs. A missing optional one is a slot
  // whose tensor has no data. The elements of a variadic slot are consecutive.
  const uint32_t* args = nullptr;
  uint16_t n_in = 0;
  uint16_t n_out = 0;
};

// The data of a kernel's call. One for a run of a block; `call` moves from op to op.
class KernelContext {
 public:
  KernelContext(Tensor* slots, BlockRunner* runner) : slots_(slots), runner_(runner) {}

  const Tensor& in(int i) const { return slots_[call->args[i]]; }
  Tensor& out(int i) const { return slots_[call->args[call->n_in + i]]; }
  int n_in() const { return call->n_in; }
  int n_out() const { return call->n_out; }
  template <typename T>
  const T& state() const {
    return *static_cast<const T*>(call->state);
  }
  void RunBlock(int block, uint64_t iteration) const { runner_->RunBlock(block, iteration); }
  void OpenBlock(int block) const { runner_->OpenBlock(block); }
  void ResizeBlock(int block, int64_t rows) const { runner_->ResizeBlock(block, rows); }
  BlockRunner& runner() const { return *runner_; }

  const KernelCall& ResizedCall(uint32_t index) const { return runner_->ResizedCall(index); }
  // The same run with other tensors; its `call` is still to be set.
  KernelContext Over(Tensor* slots) const { return KernelContext(slots, runner_); }

  const KernelCall* call = nullptr;

 private:
  Tensor* slots_;
  BlockRunner* runner_;
};

// The facts for choosing a kernel: attributes, dtypes and all shapes.
class PrepareContext {
 public:
  PrepareContext(OpView op, std::vector<VarType> in, std::vector<VarType> out,
                 std::vector<const Tensor*> values = {})
      : op_(op), in_(std::move(in)), out_(std::move(out)), values_(std::move(values)) {}
  const OpView& op() const { return op_; }
  // Numbered as in KernelContext; dtype kNone for a missing optional one.
  const VarType& in(int i) const { return in_[i]; }
  const VarType& out(int i) const { return out_[i]; }
  int n_in() const { return static_cast<int>(in_.size()); }
  int n_out() const { return static_cast<int>(out_.size()); }
  // The value of input i when it is known before the run and constant (constants, shapes), else
  // null. It lives as long as the plan.
  const Tensor* value(int i) const {
    return i < static_cast<int>(values_.size()) ? values_[i] : nullptr;
  }

 private:
  OpView op_;
  std::vector<VarType> in_, out_;
  std::vector<const Tensor*> values_;
};

struct Kernel {
  KernelFn run = nullptr;
  // Constant while it runs: several frames may run one plan at the same time.
  std::shared_ptr<const void> state;
};

template <typename State>
Kernel WithState(KernelFn run, State state) {
  return {run, std::make_shared<const State>(std::move(state))};
}

}  // namespace opstep
