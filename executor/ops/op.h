// The interface of an op: contexts of its rules, its definition, and the registry.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/op_view.h"
#include "ir/schema.h"
#include "ops/kernel.h"

namespace opstep {

// Types of the inputs in, types of the outputs out. Sizes may be -1.
class ShapeContext {
 public:
  ShapeContext(OpView op, std::vector<VarType> in, int n_out)
      : op_(op), in_(std::move(in)), out_(n_out) {}
  const OpView& op() const { return op_; }
  const VarType& in(int i) const { return in_[i]; }
  int n_in() const { return static_cast<int>(in_.size()); }
  int n_out() const { return static_cast<int>(out_.size()); }
  void set_out(int i, VarType type) { out_[i] = std::move(type); }
  const std::vector<VarType>& outs() const { return out_; }
  // The value of input i when it is known before the run (constants, shapes), else null.
  const Tensor* value(int i) const {
    return i < static_cast<int>(values_.size()) ? values_[i] : nullptr;
  }
  void set_values(std::vector<const Tensor*> values) { values_ = std::move(values); }

 private:
  OpView op_;
  std::vector<VarType> in_, out_;
  std::vector<const Tensor*> values_;
};

using Names = std::vector<std::string>;

// Collects the gradient ops of one forward op. Unneeded and missing gradients are "".
class GradContext {
 public:
  virtual ~GradContext() = default;
  virtual const OpView& op() const = 0;
  // Name of the gradient of output / input variable i of a slot, "" when it is missing / not
  // wanted.
  virtual std::string OutGrad(std::string_view slot, int i = 0) const = 0;
  virtual std::string InGrad(std::string_view slot, int i = 0) const = 0;
  // Appends an op; slots whose names are all "" are left out; an op with no output is dropped.
  virtual void Emit(std::string type, std::vector<std::pair<std::string, Names>> inputs,
                    std::vector<std::pair<std::string, Names>> outputs,
                    std::vector<proto::Attr> attrs = {}) = 0;
  // The usual case: "<type>_grad" with the named inputs and outputs of the forward op, "d<slot>"
  // for each output given in `out_grads` and, as outputs, "d<slot>" for each input in `in_grads`;
  // the forward op's attributes are copied.
  void EmitGrad(std::string type, const Names& inputs, const Names& outputs, const Names& out_grads,
                const Names& in_grads);

  // --- For ops that run blocks ---

  // A variable of the forward op, or of the forward block that is being differentiated as it is at
  // the block's start, under the name by which gradient ops can read it.
  virtual std::string Forward(const std::string& name) = 0;
  // A variable with zeros, shaped as a variable that Forward() takes.
  virtual std::string Zeros(const std::string& like) = 0;
  // gradient = 0.
  virtual void SetZero(const std::string& gradient) = 0;
  // A copy, in a new variable or into one that exists.
  virtual std::string Copy(const std::string& from, const std::string& to = "") = 0;
  // sum += term.
  virtual void AddTo(const std::string& sum, const std::string& term) = 0;
  // A new, unused variable name.
  virtual std::string Fresh(const std::string& prefix) = 0;
  // Adds an output to the forward op; returns the name by which gradient ops can read it.
  virtual std::string AddOutput(const std::string& slot) = 0;

  // The variables, as they are at the start of the forward block, that one of `ends`, at its end,
  // depends on.
  virtual Names Reached(int forward, const Names& ends) = 0;
  // From here on gradient ops go to a new block, for the gradients of the forward op's block.
  virtual void BeginBlock(int forward) = 0;
  // A variable of that new block, with the type of a variable of the forward block.
  virtual std::string Declare(const std::string& prefix, const std::string& like) = 0;
  // Emits the gradient ops of the forward block. `seeds`: variables as they are at the block's end,
  // with their gradients; one may occur several times. Returns the gradients of `wanted`, variables
  // as they are at its start; "" for missing ones.
  virtual Names Differentiate(const std::vector<std::pair<std::string, std::string>>& seeds,
                              const Names& wanted) = 0;
  // Returns the index of the new block.
  virtual int EndBlock() = 0;
};

// The purposes for which passes need an op, so that they need not know its name.
enum class OpRole {
  kNone,
  // dtype and dims attributes `dtype`, `shape`, `value` → out: seeds the backward pass.
  kFill,
  // Its output is fed by the caller.
  kFeed,
  // Variadic X → out: sums gradients from several paths.
  kSum,
  // Reads or writes a file that it names: a foreign model must not contain it.
  kFile,
  // X → out: a copy.
  kCopy,
  // X, Y → out, written over X.
  kAdd,
  // X → out, written over X: zeros shaped as X.
  kZeros,
  // X, stack → stack, and stack → out: keep a value of a block's run for the gradient.
  kPush,
  kPop,
  // Runs its block only if it has not run before in this scope.
  kOnce,
  // Makes a reader of data from outside the program.
  kSource,
  // Runs its block for each record of a reader.
  kReaderLoop,
};

struct OpDef {
  OpSchema schema;
  void (*shape)(ShapeContext&) = nullptr;
  Kernel (*prepare)(const PrepareContext&) = nullptr;
  // Null: no gradient flows through the op.
  void (*grad)(GradContext&) = nullptr;
  OpRole role = OpRole::kNone;
  // Keeps it in the plan even if its outputs are not read.
  bool side_effect = false;
  // The number of rows that it hands to its blocks is known only when it runs.
  bool resizes_blocks = false;
  // All sizes of the values that it hands to its blocks are known only when it runs.
  bool shapes_blocks = false;
  // Python source over the slots' and attributes' names with NumPy as np; gives the output or a
  // tuple.
  std::string oracle;
  // "X=float32[2,3]{0.1,2} axis=1": inputs (with a range of values) and attributes. An input
  // without a dtype is tried with each dtype that the slot takes.
  std::vector<std::string> samples;
  // Needs a program around it (feeds, blocks, output streams), so samples cannot cover it.
  bool own_test = false;
};

// `static const auto kRegistered = Op("relu").Doc(...)...Register();`
class Op {
 public:
  explicit Op(std::string type) { def_.schema.type = std::move(type); }
  Op& Doc(std::string doc);
  Op& In(std::string name, std::string doc, DTypeSet dtypes);
  Op& Out(std::string name, std::string doc, DTypeSet dtypes);
  // For the slot named last:
  Op& Optional();
  Op& Variadic();
  Op& ShapeOnly();
  Op& InplaceOf(std::string input);
  Op& Unchanged();
  Op& OfBlock(std::string attr);
  Op& Captures();
  Op& Stack();
  Op& Reader();
  // With default, or required (made with Required below).
  Op& Attr(const proto::Attr& default_value, std::string doc);
  Op& Required(std::string name, AttrType type, std::string doc);
  Op& Shape(void (*fn)(ShapeContext&));
  Op& Prepare(Kernel (*fn)(const PrepareContext&));
  Op& Grad(void (*fn)(GradContext&));
  Op& Role(OpRole role);
  Op& SideEffect();
  Op& ResizesBlocks();
  Op& ShapesBlocks();
  Op& Oracle(std::string python);
  Op& Sample(std::string text);
  Op& OwnTest();
  bool Register();

 private:
  SlotSchema& Last();
  OpDef def_;
  bool last_is_output_ = false;
};

const OpDef* FindOp(std::string_view type);
// Unknown: an error that suggests the nearest name.
const OpDef& GetOp(std::string_view type);
const OpDef& GetOp(OpRole role);
const OpSchema* FindSchema(std::string_view type);
// Sorted by type.
std::vector<const OpDef*> AllOps();

}  // namespace opstep
