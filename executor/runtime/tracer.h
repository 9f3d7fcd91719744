// Tracer: values of imperative mode, and ops that run at once.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/program.h"
#include "runtime/executor.h"

namespace opstep {

struct TapeNode;

// Memory that runtime values share, and how often ops have written into it after it was made.
struct Buffer {
  Tensor tensor;
  std::atomic<uint32_t> writes{0};
};

// A tensor that is there now: what imperative mode has in place of a program's variable. Used by
// one thread at a time.
struct RuntimeValue {
  std::shared_ptr<Buffer> buffer;
  // What a debugger calls it; "" for what ops give.
  std::string name;
  bool stop_gradient = true;
  // The op that made it, if gradients flow through that, and which of its outputs it is.
  std::shared_ptr<TapeNode> node;
  uint32_t output = 0;
  std::shared_ptr<RuntimeValue> gradient;
  // The object that the language above shows it as, while there is one: that is its to change.
  void* shown_as = nullptr;

  const Tensor& tensor() const { return buffer->tensor; }
  // Is its gradient wanted?
  bool differentiable() const { return !stop_gradient && IsFloat(tensor().dtype); }
};
using ValuePtr = std::shared_ptr<RuntimeValue>;

ValuePtr MakeValue(Tensor tensor);

// One op as a program and plan of its own, for inputs of some types, made on some line.
struct TracedOp {
  uint64_t id = 0;  // unique in the process
  std::shared_ptr<const Program> program;
  std::unique_ptr<CompiledPlan> plan;
  bool has_gradient = false;
  // It takes less time than another thread would need to begin.
  bool brief = false;
  size_t bytes = 0;  // of all that it reads and writes, about
  // Inputs that the plan is fed, by their places among the op's inputs.
  std::vector<uint32_t> fed;
  // Outputs that the plan makes, by their places among the op's outputs; the others it writes into
  // values that are there.
  std::vector<uint32_t> made;
  std::vector<std::pair<uint32_t, std::string>> written;

  const proto::OpDesc& op() const { return program->block(0).ops(0); }
};

// Compiles an op that names its variables: equal names are the same value. `inputs`: the types of
// the variables that it reads, in the op's order; `outputs`: of those that it writes into, with
// dtype kNone for those that are to be made. A variable named "" is not there.
std::shared_ptr<const TracedOp> MakeTracedOp(std::shared_ptr<Program> program, proto::OpDesc op,
                                             const std::vector<VarType>& inputs,
                                             const std::vector<VarType>& outputs);

// Runs it at once, through the run loop that everything runs through. `outputs`: values to write
// into, null for those that are to be made, which it fills in. With `record`, what is needed for
// gradients is kept.
void RunTracedOp(const std::shared_ptr<const TracedOp>& op, std::span<const ValuePtr> inputs,
                 std::span<ValuePtr> outputs, bool record);

// Numbers that are few as a rule: those need no memory of their own.
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

// An op that ran, with the values that it saw. Values know the op that made them, and ops what they
// read: what nobody can ask a gradient of any more is freed.
struct TapeNode {
  uint64_t number = 0;  // in the order in which ops ran
  std::shared_ptr<const TracedOp> op;
  std::vector<ValuePtr> inputs;
  Few<uint8_t> wanted;  // is a gradient of the input wanted?
  std::vector<std::shared_ptr<Buffer>> outputs;
  Few<uint8_t> in_place;  // of outputs: no gradient flows through what is written into
  // Buffer::writes of the inputs as they were read and of the outputs as they were made.
  Few<uint32_t> input_writes, output_writes;
  bool released = false;

  TapeNode() = default;
  TapeNode(const TapeNode&) = delete;
  ~TapeNode();
  void Release();
};

// The gradients of `loss` (one element) for the values that it was computed from and that no op
// made. The tape becomes a program to which the ops of AppendBackward are added, and those run as
// one plan, which is kept for tapes of the same ops. Without `retain` the tape is released.
std::vector<std::pair<ValuePtr, ValuePtr>> RunBackward(const ValuePtr& loss, bool retain);

// The gradients of `loss` for some values that it was computed from. With `record` the gradient ops
// run one by one and are on the tape themselves, which is retained.
std::vector<ValuePtr> RunGradients(const ValuePtr& loss, const std::vector<ValuePtr>& wanted,
                                   bool retain, bool record);

}  // namespace opstep
