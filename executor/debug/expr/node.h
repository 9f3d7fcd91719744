// Node: one step of a bound expression, and the functions of the language.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "debug/expr/expression.h"
#include "debug/expr/operators.h"

namespace opstep::expr {

struct Context {
  const Expression::Env* env;  // null while constants are folded
  Budget budget;
};

// One step of a bound expression: names are slots, functions and counts of arguments are checked.
struct Node {
  virtual ~Node() = default;
  virtual Value Eval(Context& context) const = 0;
  virtual bool constant() const { return false; }
  // The variable that an assignment to it changes; 0 when it is neither a variable nor a part of
  // one.
  virtual uint32_t Target(Context&) const { return 0; }
  // The variable that it is as a whole; 0 when it is not a variable.
  virtual uint32_t Variable(Context&) const { return 0; }
  // The part of that variable that it names: `whole` is the variable, or a value of its shape.
  virtual Value Part(const Value& whole, Context&) const { return whole; }
};
using NodePtr = std::unique_ptr<Node>;

NodePtr Constant(Value value);
// The node itself, or its value when all its operands are constant.
NodePtr Fold(NodePtr node, bool constant);

NodePtr SlotNode(uint32_t slot);
// Says why there is no value.
[[noreturn]] void FailAbsent(const FrameView& frame, uint32_t slot, ValueState state,
                             const Instruction* released_by);
enum class Frame { kStep, kIteration };
NodePtr FrameNode(Frame what);
NodePtr ListNode(std::vector<NodePtr> values);
NodePtr UnaryNode(UnaryOp op, NodePtr x);
NodePtr BinaryNode(BinaryOp op, NodePtr a, NodePtr b);
NodePtr CompareNode(NodePtr first, std::vector<CompareOp> ops, std::vector<NodePtr> rest);
NodePtr LogicNode(bool is_or, std::vector<NodePtr> values);
struct SubscriptNodes {
  Subscript::Kind kind;
  NodePtr index, start, stop, step;
};
NodePtr IndexNode(NodePtr value, std::vector<SubscriptNodes> subscripts);
bool IsProperty(std::string_view name);
// name ".shape" and so on; also for an absent tensor whose type is known. An unknown name is an
// Error.
NodePtr PropertyNode(NodePtr value, std::string_view name);

// A function by name, with its arguments in place: null where an optional one is not given.
struct Function {
  // The name is the part before the bracket; keywords are the parameters' names.
  std::string_view signature;
  int least;
  NodePtr (*make)(std::vector<NodePtr> args);  // null: the binder handles it
  std::string_view name() const { return signature.substr(0, signature.find('(')); }
  std::vector<std::string> parameters() const;
};
bool IsFunction(std::string_view name);
// Unknown: an Error with the nearest name.
const Function& FindFunction(std::string_view name);

// The room left in a reply; well below the wire's 4 MiB for a message.
inline constexpr size_t kMaxReplyBytes = size_t{1} << 20;
struct ReplyLimits {
  uint64_t max_elements, start, count;
  size_t bytes;
  const std::atomic<bool>* cancelled = nullptr;
};
void ToMessage(const Value& value, ReplyLimits& limits, Budget& budget, proto::Value* out);

}  // namespace opstep::expr
