// Tracer: values of imperative mode, and ops that run at once.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor_stack.h"
#include "ir/program.h"
#include "runtime/executor.h"

namespace opstep {

struct TapeNode;

// Memory that runtime values share, and the number of later writes by ops.
struct Buffer {
  Tensor tensor;
  std::atomic<uint32_t> writes{0};
  // Its part of StackMemory, in units that leave it small.
  uint32_t counted = 0;
  static constexpr int64_t kCountedUnit = 256;

  Buffer() = default;
  Buffer(const Buffer&) = delete;
  ~Buffer() {
    if (counted != 0) [[unlikely]]
      StackMemory::Give(counted * kCountedUnit);
  }
};

// A tensor with a value now: imperative mode's counterpart of a program's variable. Used by one
// thread at a time.
struct RuntimeValue {
  std::shared_ptr<Buffer> buffer;
  // Its name in a debugger; "" for results of ops.
  std::string name;
  bool stop_gradient = true;
  // The op that made it, if gradients flow through the op, and the number of the output.
  std::shared_ptr<TapeNode> node;
  uint32_t output = 0;
  std::shared_ptr<RuntimeValue> gradient;
  // The object that shows it in the calling language, while one exists; only that language changes
  // it.
  void* shown_as = nullptr;

  const Tensor& tensor() const { return buffer->tensor; }
  // Is its gradient wanted?
  bool differentiable() const { return !stop_gradient && IsFloat(tensor().dtype); }
};
using ValuePtr = std::shared_ptr<RuntimeValue>;

ValuePtr MakeValue(Tensor tensor);

// One op as a separate program and plan, for inputs of some types, made on some line.
struct TracedOp {
  uint64_t id = 0;  // unique in the process
  std::shared_ptr<const Program> program;
  std::unique_ptr<CompiledPlan> plan;
  bool has_gradient = false;
  // It takes less time than starting another thread.
  bool brief = false;
  size_t bytes = 0;  // estimate of all reads and writes
  // Inputs that the plan is fed, by their places among the op's inputs.
  std::vector<uint32_t> fed;
  // Outputs that the plan makes, by their places among the op's outputs; it writes the others into
  // existing values.
  std::vector<uint32_t> made;
  std::vector<std::pair<uint32_t, std::string>> written;

  const proto::OpDesc& op() const { return program->block(0).ops(0); }
};

// Compiles an op that names its variables: equal names are the same value. `inputs`: the types of
// the variables that it reads, in the op's order; `outputs`: of those that it writes into, with
// dtype kNone for new ones. A variable named "" is missing.
std::shared_ptr<const TracedOp> MakeTracedOp(std::shared_ptr<Program> program, proto::OpDesc op,
                                             const std::vector<VarType>& inputs,
                                             const std::vector<VarType>& outputs);

// Runs it at once, through the run loop that everything runs through. `outputs`: values to write
// into, null for new ones, which it fills in. With `record`, values for gradients are kept.
void RunTracedOp(const std::shared_ptr<const TracedOp>& op, std::span<const ValuePtr> inputs,
                 std::span<ValuePtr> outputs, bool record);

// Counts what the tape keeps of an op that ran in a loop; returns whether it is within the limit of
// StackMemory.
bool CountKept(const TracedOp& op, std::span<const ValuePtr> outputs);

// Numbers, usually few: then they need no heap memory.
template <typename T>
class Few {
 public:
  void push_back(T number) {
    if (size_ < kFew) {
      few_[size_] = number;
    } else {
      more_.push_back(number);
    }
    ++size_;
  }
  T& operator[](size_t i) { return i < kFew ? few_[i] : more_[i - kFew]; }
  T operator[](size_t i) const { return i < kFew ? few_[i] : more_[i - kFew]; }
  size_t size() const { return size_; }

 private:
  static constexpr size_t kFew = 4;
  std::array<T, kFew> few_{};
  size_t size_ = 0;
  std::vector<T> more_;
};

// An op that ran, with the values that it saw. Values refer to the op that made them, and ops to
// their inputs: values whose gradient nobody can ask for any more are freed.
struct TapeNode {
  uint64_t number = 0;  // in the order in which ops ran
  std::shared_ptr<const TracedOp> op;
  std::vector<ValuePtr> inputs;
  Few<uint8_t> wanted;  // is a gradient of the input wanted?
  std::vector<std::shared_ptr<Buffer>> outputs;
  Few<uint8_t> in_place;  // of outputs: no gradient flows through values that are written into
  // Buffer::writes of the inputs as they were read and of the outputs as they were made.
  Few<uint32_t> input_writes, output_writes;
  bool released = false;

  TapeNode() = default;
  TapeNode(const TapeNode&) = delete;
  ~TapeNode();
  void Release();
};

// The lines that ask for gradients, which the op that starts them with 1 carries: a number for
// them, and what writes them into an op of a program.
struct AskedAt {
  uint64_t number = 0;
  std::function<void(Program&, proto::OpDesc&)> write;
};

// The gradients of `loss` (one element) for the values that it was computed from and that no op
// made. The tape becomes a program to which the ops of AppendBackward are added, and those run as
// one plan, which is kept for tapes of the same ops on the same lines. Without `retain` the tape is
// released.
std::vector<std::pair<ValuePtr, ValuePtr>> RunBackward(const ValuePtr& loss, bool retain,
                                                       const AskedAt& at);

// The gradients of `loss` for some values that it was computed from. With `record` the gradient ops
// run one by one and are on the tape themselves, which is retained.
std::vector<ValuePtr> RunGradients(const ValuePtr& loss, const std::vector<ValuePtr>& wanted,
                                   bool retain, bool record, const AskedAt& at);

}  // namespace opstep
