// Nodes of expressions: constants, slots, operators, subscripts, properties; constants are folded.
#include "debug/expr/node.h"

#include <algorithm>
#include <iterator>

#include "debug/plans/slots.h"
#include "ir/schema.h"

namespace opstep::expr {
namespace {

struct ConstantNode : Node {
  Value value;
  Value Eval(Context&) const override { return value; }
  bool constant() const override { return true; }
};

struct SlotValue : Node {
  uint32_t slot = 0;

  Value Eval(Context& context) const override { return Value::Of(Find(context)); }
  const Tensor& Find(Context& context) const {
    const FrameView& frame = context.env->frame;
    const Instruction* by = nullptr;
    const ValueState state = frame.StateOf(slot, &by);
    if (state != ValueState::kPresent) [[unlikely]]
      FailAbsent(frame, slot, state, by);
    const Tensor& tensor = frame.tensor(slot);
    if (!tensor && tensor.numel > 0) [[unlikely]]
      FailAbsent(frame, slot, ValueState::kNotWritten, nullptr);
    return tensor;
  }
  uint32_t Target(Context&) const override { return slot; }
  uint32_t Variable(Context&) const override { return slot; }

  // Known also when the value is not there.
  VarType Type(Context& context) const {
    const FrameView& frame = context.env->frame;
    const bool present = frame.StateOf(slot) == ValueState::kPresent;
    return present ? frame.tensor(slot).type() : TypeNow(frame, slot);
  }
};

struct FrameValue : Node {
  Frame what = Frame::kStep;
  Value Eval(Context& context) const override {
    const uint64_t n =
        what == Frame::kStep ? context.env->frame.step() : context.env->where.iteration;
    return Value::Int(static_cast<int64_t>(n));
  }
};

struct ListValue : Node {
  std::vector<NodePtr> values;
  Value Eval(Context& context) const override {
    std::vector<Value> out;
    out.reserve(values.size());
    for (const NodePtr& v : values) out.push_back(v->Eval(context));
    return Value::List(std::move(out));
  }
};

struct UnaryValue : Node {
  UnaryOp op = UnaryOp::kPlus;
  NodePtr x;
  Value Eval(Context& context) const override {
    return Unary(op, x->Eval(context), context.budget);
  }
};

struct BinaryValue : Node {
  BinaryOp op = BinaryOp::kAdd;
  NodePtr a, b;
  Value Eval(Context& context) const override {
    const Value left = a->Eval(context);
    return Binary(op, left, b->Eval(context), context.budget);
  }
};

struct CompareValue : Node {
  NodePtr first;
  std::vector<CompareOp> ops;
  std::vector<NodePtr> rest;
  Value Eval(Context& context) const override {
    Value left = first->Eval(context);
    for (size_t i = 0;; ++i) {
      Value right = rest[i]->Eval(context);
      Value result = Compare(ops[i], left, right, context.budget);
      if (i + 1 == ops.size() || !Truth(result)) return result;
      left = std::move(right);
    }
  }
};

struct LogicValue : Node {
  bool is_or = false;
  std::vector<NodePtr> values;
  Value Eval(Context& context) const override {
    for (size_t i = 0;; ++i) {
      Value value = values[i]->Eval(context);
      if (i + 1 == values.size() || Truth(value) == is_or) return value;
    }
  }
};

struct IndexValue : Node {
  NodePtr value;
  std::vector<SubscriptNodes> subscripts;
  // A variable indexed with numbers: conditions on one element need no memory.
  const SlotValue* slot = nullptr;
  std::vector<int64_t> element;

  Value Eval(Context& context) const override {
    if (slot != nullptr) {
      const Tensor& tensor = slot->Find(context);
      if (const char* found = ElementOf(tensor)) return LoadScalar(tensor.dtype, found);
    }
    const Value x = value->Eval(context);
    return Index(x, Resolve(context, 0), context.budget);
  }

  uint32_t Target(Context& context) const override {
    const Node* from = Chosen(context).first;
    return from->Target(context);
  }
  uint32_t Variable(Context& context) const override {
    const auto [from, used] = Chosen(context);
    return used == subscripts.size() ? from->Variable(context) : 0;
  }
  Value Part(const Value& whole, Context& context) const override {
    const auto [from, used] = Chosen(context);
    const Value x = from->Part(whole, context);
    const std::vector<Subscript> rest = Resolve(context, used);
    return rest.empty() ? x : View(x, rest, context.budget);
  }

 private:
  // Null when the numbers do not choose one of its elements.
  const char* ElementOf(const Tensor& tensor) const {
    if (static_cast<int>(element.size()) != tensor.dims.rank()) return nullptr;
    int64_t at = 0;
    for (size_t axis = 0; axis < element.size(); ++axis) {
      const int64_t size = tensor.dims[static_cast<int>(axis)];
      const int64_t i = element[axis] < 0 ? element[axis] + size : element[axis];
      if (i < 0 || i >= size) return nullptr;
      at = at * size + i;
    }
    return tensor.as<char>() + static_cast<size_t>(at) * SizeOf(tensor.dtype);
  }

  // X[1] of a slot with several variables names one of them: returns it and the number of
  // subscripts used.
  std::pair<const Node*, size_t> Chosen(Context& context) const {
    const auto* list = dynamic_cast<const ListValue*>(value.get());
    if (list == nullptr || !subscripts[0].index) return {value.get(), 0};
    const int64_t size = static_cast<int64_t>(list->values.size());
    int64_t i = ToIndex(subscripts[0].index->Eval(context), "the index of a list");
    OPSTEP_CHECK(i >= -size && i < size, "index ", i, " is out of range for a list of ", size);
    return {list->values[static_cast<size_t>(i < 0 ? i + size : i)].get(), 1};
  }

  std::vector<Subscript> Resolve(Context& context, size_t from) const {
    std::vector<Subscript> resolved;
    resolved.reserve(subscripts.size() - from);
    for (size_t i = from; i < subscripts.size(); ++i) {
      const SubscriptNodes& s = subscripts[i];
      Subscript& r = resolved.emplace_back();
      r.kind = s.kind;
      if (s.index) r.index = s.index->Eval(context);
      const auto bound = [&](const NodePtr& node) -> std::optional<int64_t> {
        if (!node) return std::nullopt;
        return ToIndex(node->Eval(context), "a slice's bound");
      };
      r.start = bound(s.start), r.stop = bound(s.stop), r.step = bound(s.step);
    }
    return resolved;
  }
};

enum class Property { kShape, kSize, kNdim, kDType, kTransposed };
constexpr std::string_view kProperties[] = {".shape", ".size", ".ndim", ".dtype", ".T"};

Value Describe(Property property, DType dtype, const Dims& dims) {
  switch (property) {
    case Property::kSize:
      return Value::Int(dims.numel());
    case Property::kNdim:
      return Value::Int(dims.rank());
    case Property::kDType:
      return Value::String(std::string(NameOf(dtype)));
    default:
      break;
  }
  std::vector<Value> sizes;
  for (int64_t size : dims) sizes.push_back(Value::Int(size));
  return Value::List(std::move(sizes));
}

struct PropertyValue : Node {
  Property property = Property::kShape;
  NodePtr value;
  const SlotValue* slot = nullptr;  // when `value` is one
  Value Eval(Context& context) const override {
    if (slot && property != Property::kTransposed) {
      const VarType type = slot->Type(context);
      return Describe(property, type.dtype, type.dims);
    }
    const Value x =
        ToNumeric(value->Eval(context), kProperties[static_cast<int>(property)], context.budget);
    if (property != Property::kTransposed) return Describe(property, x.full_dtype(), x.shape());
    Value turned = x;
    std::reverse_copy(x.dims, x.dims + x.rank, turned.dims);
    std::reverse_copy(x.strides, x.strides + x.rank, turned.strides);
    return turned;
  }
};

bool AllConstant(const std::vector<NodePtr>& nodes) {
  return std::all_of(nodes.begin(), nodes.end(), [](const NodePtr& n) { return n->constant(); });
}

}  // namespace

NodePtr Constant(Value value) {
  auto node = std::make_unique<ConstantNode>();
  node->value = std::move(value);
  return node;
}

NodePtr Fold(NodePtr node, bool constant) {
  if (!constant) return node;
  Context context{nullptr, Budget()};
  return Constant(node->Eval(context));
}

void FailAbsent(const FrameView& frame, uint32_t slot, ValueState state,
                const Instruction* released_by) {
  const std::string& name = frame.plan().slots[slot].name;
  if (frame.plan().slots[slot].storage == Storage::kReader)
    Fail(name, " is a reader: it gives values, but has none itself");
  if (frame.plan().slots[slot].storage == Storage::kStack)
    Fail(name, " keeps values for later: it has none itself");
  if (state == ValueState::kNotWritten) {
    Fail(name, IsRunning(frame, slot) ? " has not been written yet"
                                      : " has no value now: its block is not running");
  }
  if (released_by == nullptr || released_by->op == nullptr) Fail(name, " was released");
  Fail(name, " was released after op #", released_by->op_id, " ", released_by->op->name());
}

NodePtr SlotNode(uint32_t slot) {
  auto node = std::make_unique<SlotValue>();
  node->slot = slot;
  return node;
}

NodePtr FrameNode(Frame what) {
  auto node = std::make_unique<FrameValue>();
  node->what = what;
  return node;
}

NodePtr ListNode(std::vector<NodePtr> values) {
  auto node = std::make_unique<ListValue>();
  node->values = std::move(values);
  const bool constant = AllConstant(node->values);
  return Fold(std::move(node), constant);
}

NodePtr UnaryNode(UnaryOp op, NodePtr x) {
  auto node = std::make_unique<UnaryValue>();
  node->op = op;
  node->x = std::move(x);
  const bool constant = node->x->constant();
  return Fold(std::move(node), constant);
}

NodePtr BinaryNode(BinaryOp op, NodePtr a, NodePtr b) {
  auto node = std::make_unique<BinaryValue>();
  node->op = op;
  node->a = std::move(a);
  node->b = std::move(b);
  const bool constant = node->a->constant() && node->b->constant();
  return Fold(std::move(node), constant);
}

NodePtr CompareNode(NodePtr first, std::vector<CompareOp> ops, std::vector<NodePtr> rest) {
  auto node = std::make_unique<CompareValue>();
  node->first = std::move(first);
  node->ops = std::move(ops);
  node->rest = std::move(rest);
  const bool constant = node->first->constant() && AllConstant(node->rest);
  return Fold(std::move(node), constant);
}

NodePtr LogicNode(bool is_or, std::vector<NodePtr> values) {
  auto node = std::make_unique<LogicValue>();
  node->is_or = is_or;
  node->values = std::move(values);
  const bool constant = AllConstant(node->values);
  return Fold(std::move(node), constant);
}

NodePtr IndexNode(NodePtr value, std::vector<SubscriptNodes> subscripts) {
  auto node = std::make_unique<IndexValue>();
  node->value = std::move(value);
  node->subscripts = std::move(subscripts);
  node->slot = dynamic_cast<const SlotValue*>(node->value.get());
  for (const SubscriptNodes& s : node->subscripts) {
    const auto* number = dynamic_cast<const ConstantNode*>(s.index.get());
    if (number == nullptr || number->value.kind != Value::Kind::kInt) {
      node->slot = nullptr;
      break;
    }
    node->element.push_back(number->value.i);
  }
  return node;
}

bool IsProperty(std::string_view name) {
  return std::find(std::begin(kProperties), std::end(kProperties), name) != std::end(kProperties);
}

NodePtr PropertyNode(NodePtr value, std::string_view name) {
  for (size_t i = 0; i < std::size(kProperties); ++i) {
    if (kProperties[i] != name) continue;
    auto node = std::make_unique<PropertyValue>();
    node->property = static_cast<Property>(i);
    node->slot = dynamic_cast<const SlotValue*>(value.get());
    node->value = std::move(value);
    const bool constant = node->value->constant();
    return Fold(std::move(node), constant);
  }
  if (IsFunction(name.substr(1))) Fail(name.substr(1), " is a function: write ", name, "()");
  Fail("there is no property ", name, ": a tensor has .shape, .size, .ndim, .dtype and .T");
}

}  // namespace opstep::expr
