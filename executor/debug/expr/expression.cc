// Expression: checks the wire's message and builds the nodes from it.
#include "debug/expr/expression.h"

#include <new>
#include <string>
#include <utility>
#include <vector>

#include "debug/expr/assignment.h"
#include "debug/expr/names.h"
#include "debug/expr/node.h"
#include "debug/inspect/sequences.h"

namespace opstep {
namespace expr {
namespace {

// The message may be hostile: every enum, count and depth is checked before it is used.
class Binder {
 public:
  Binder(const Plan& plan, int block, const proto::OpDesc* op, const PythonNames* python,
         NamesReport* report)
      : names_(plan, block, op, python, report) {}

  NodePtr Build(const proto::Expr& e, int depth) {
    Count(depth);
    switch (e.node_case()) {
      case proto::Expr::kB:
        return Constant(Value::Bool(e.b()));
      case proto::Expr::kI:
        return Constant(Value::Int(e.i()));
      case proto::Expr::kF:
        return Constant(Value::Float(e.f()));
      case proto::Expr::kS:
        return Constant(Value::String(e.s()));
      case proto::Expr::kName:
        return names_.Resolve({e.name()});
      case proto::Expr::kAttribute:
        return BuildAttribute(e, depth);
      case proto::Expr::kUnary: {
        const int op = Enum(e.unary().op(), proto::Expr::Unary::Op_MAX);
        return UnaryNode(static_cast<UnaryOp>(op), Build(e.unary().value(), depth + 1));
      }
      case proto::Expr::kBinary: {
        const int op = Enum(e.binary().op(), proto::Expr::Binary::Op_MAX);
        NodePtr left = Build(e.binary().left(), depth + 1);
        return BinaryNode(static_cast<BinaryOp>(op), std::move(left),
                          Build(e.binary().right(), depth + 1));
      }
      case proto::Expr::kCompare:
        return BuildCompare(e.compare(), depth);
      case proto::Expr::kLogic:
        OPSTEP_CHECK(e.logic().values_size() > 0, kMalformed);
        return LogicNode(e.logic().is_or(), BuildAll(e.logic().values(), depth));
      case proto::Expr::kCall:
        return BuildCall(e.call(), depth);
      case proto::Expr::kIndex:
        if (NodePtr node = BuildPath(e, depth)) return node;
        return BuildIndex(e.index(), depth);
      case proto::Expr::kList:
        return ListNode(BuildAll(e.list().values(), depth));
      case proto::Expr::NODE_NOT_SET:
        break;
    }
    Fail(kMalformed);
  }

  bool needs_outputs() const { return names_.needs_outputs(); }

 private:
  static constexpr const char* kMalformed = "the expression's message is malformed";

  void Count(int depth) {
    OPSTEP_CHECK(++nodes_ <= kMaxNodes, "the expression has more than ", kMaxNodes, " parts");
    OPSTEP_CHECK(depth <= kMaxDepth, "the expression is nested deeper than ", kMaxDepth);
  }

  static int Enum(int value, int max) {
    OPSTEP_CHECK(value >= 0 && value <= max, kMalformed);
    return value;
  }

  template <typename Exprs>
  std::vector<NodePtr> BuildAll(const Exprs& exprs, int depth) {
    std::vector<NodePtr> nodes;
    for (const proto::Expr& e : exprs) nodes.push_back(Build(e, depth + 1));
    return nodes;
  }

  // The parts of a.b.c; empty when it does not begin with a name.
  std::vector<std::string> Parts(const proto::Expr& expr, int depth) {
    std::vector<std::string> parts;
    const proto::Expr* e = &expr;
    for (; e->node_case() == proto::Expr::kAttribute; e = &e->attribute().value()) {
      parts.push_back(e->attribute().name());
      OPSTEP_CHECK(depth + static_cast<int>(parts.size()) <= kMaxDepth,
                   "the expression is nested deeper than ", kMaxDepth);
    }
    if (e->node_case() != proto::Expr::kName) return {};
    parts.push_back(e->name());
    return {parts.rbegin(), parts.rend()};
  }

  // self.blocks[0].w: what Python holds there, or null. Without an index it is resolved by parts.
  NodePtr BuildPath(const proto::Expr& expr, int depth) {
    std::string path;
    bool indexed = false;
    const proto::Expr* e = &expr;
    for (; e->node_case() != proto::Expr::kName; ++depth) {
      OPSTEP_CHECK(depth <= kMaxDepth, "the expression is nested deeper than ", kMaxDepth);
      if (e->node_case() == proto::Expr::kAttribute) {
        path = "." + e->attribute().name() + path;
        e = &e->attribute().value();
        continue;
      }
      const bool one = e->node_case() == proto::Expr::kIndex && e->index().subscripts_size() == 1;
      if (!one || e->index().subscripts(0).index().node_case() != proto::Expr::kI) return nullptr;
      path = Cat("[", e->index().subscripts(0).index().i(), "]") + path;
      e = &e->index().value();
      indexed = true;
    }
    return indexed ? names_.Path(e->name(), path) : nullptr;
  }

  NodePtr BuildAttribute(const proto::Expr& e, int depth) {
    if (NodePtr node = BuildPath(e, depth)) return node;
    const std::vector<std::string> parts = Parts(e, depth);
    if (!parts.empty()) return names_.Resolve(parts);
    return PropertyNode(Build(e.attribute().value(), depth + 1), "." + e.attribute().name());
  }

  NodePtr BuildCompare(const proto::Expr::Compare& e, int depth) {
    OPSTEP_CHECK(e.ops_size() > 0 && e.ops_size() == e.rest_size(), kMalformed);
    std::vector<CompareOp> ops;
    for (int op : e.ops())
      ops.push_back(static_cast<CompareOp>(Enum(op, proto::Expr::Compare::Op_MAX)));
    NodePtr first = Build(e.first(), depth + 1);
    return CompareNode(std::move(first), std::move(ops), BuildAll(e.rest(), depth));
  }

  NodePtr BuildCall(const proto::Expr::Call& e, int depth) {
    const Function& function = FindFunction(e.function());
    const std::vector<std::string> parameters = function.parameters();
    const int most = static_cast<int>(parameters.size());
    OPSTEP_CHECK(e.args_size() <= most, function.signature, " takes at most ", most,
                 most == 1 ? " argument, not " : " arguments, not ", e.args_size());
    std::vector<const proto::Expr*> given(parameters.size());
    for (int i = 0; i < e.args_size(); ++i) given[i] = &e.args(i);
    for (const proto::Expr::Keyword& keyword : e.keywords()) {
      size_t i = 0;
      while (i < parameters.size() && parameters[i] != keyword.name()) ++i;
      OPSTEP_CHECK(i < parameters.size(), function.signature, " has no argument '", keyword.name(),
                   "'");
      OPSTEP_CHECK(given[i] == nullptr, function.signature, " got '", keyword.name(), "' twice");
      given[i] = &keyword.value();
    }
    for (int i = 0; i < function.least; ++i) {
      OPSTEP_CHECK(given[i] != nullptr, function.signature, " needs '", parameters[i], "'");
    }
    if (function.name() == "var" && given[0]->node_case() == proto::Expr::kS) {
      Count(depth + 1);
      return names_.Variable(given[0]->s());
    }
    if (function.make == nullptr) return BuildNamed(*given[0], depth + 1);
    std::vector<NodePtr> args;
    for (const proto::Expr* arg : given) args.push_back(arg ? Build(*arg, depth + 1) : nullptr);
    return function.make(std::move(args));
  }

  // grad(w) takes a name, not a value.
  NodePtr BuildNamed(const proto::Expr& arg, int depth) {
    Count(depth);
    if (arg.node_case() == proto::Expr::kS) return names_.Gradient(arg.s());
    std::string name;
    for (const std::string& part : Parts(arg, depth)) name += name.empty() ? part : "." + part;
    OPSTEP_CHECK(!name.empty(), "grad() takes a variable");
    return names_.Gradient(name);
  }

  NodePtr BuildIndex(const proto::Expr::Index& e, int depth) {
    OPSTEP_CHECK(e.subscripts_size() > 0, kMalformed);
    NodePtr value = Build(e.value(), depth + 1);
    std::vector<SubscriptNodes> subscripts;
    const auto bound = [&](bool has, const proto::Expr& b) {
      return has && b.node_case() != proto::Expr::NODE_NOT_SET ? Build(b, depth + 1) : nullptr;
    };
    for (const proto::Expr::Subscript& s : e.subscripts()) {
      Count(depth);
      SubscriptNodes& nodes = subscripts.emplace_back();
      switch (s.kind_case()) {
        case proto::Expr::Subscript::kIndex:
          nodes.kind = Subscript::Kind::kIndex;
          nodes.index = Build(s.index(), depth + 1);
          break;
        case proto::Expr::Subscript::kRange:
          nodes.kind = Subscript::Kind::kRange;
          nodes.start = bound(s.range().has_start(), s.range().start());
          nodes.stop = bound(s.range().has_stop(), s.range().stop());
          nodes.step = bound(s.range().has_step(), s.range().step());
          break;
        case proto::Expr::Subscript::kEllipsis:
          nodes.kind = Subscript::Kind::kEllipsis;
          break;
        case proto::Expr::Subscript::KIND_NOT_SET:
          Fail(kMalformed);
      }
    }
    return IndexNode(std::move(value), std::move(subscripts));
  }

  Names names_;
  int nodes_ = 0;
};

template <typename F>
decltype(auto) Guard(F&& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    Fail("there is not enough memory for the expression: take a slice first");
  }
}

class Bound : public Expression {
 public:
  Bound(NodePtr root, bool needs_outputs) : root_(std::move(root)), needs_outputs_(needs_outputs) {}

  bool needs_outputs() const override { return needs_outputs_; }

  bool Test(const Env& env) const override {
    return Guard([&] {
      Context context{&env, Budget(env.cancelled)};
      return Truth(root_->Eval(context));
    });
  }

  void Evaluate(const Env& env, uint64_t max_elements, uint64_t start, uint64_t count,
                proto::Value* out) const override {
    Guard([&] {
      Context context{&env, Budget(env.cancelled)};
      ReplyLimits limits{max_elements, start, count, kMaxReplyBytes, env.cancelled};
      ToMessage(root_->Eval(context), limits, context.budget, out);
      const uint32_t slot = out->has_tensor() ? root_->Variable(context) : 0;
      if (slot != 0) FillSequences(env.frame, slot, out->mutable_tensor());
    });
  }

  uint32_t Variable(const Env& env) const override {
    return Guard([&] {
      Context context{&env, Budget(env.cancelled)};
      return root_->Variable(context);
    });
  }

  Tensor Read(const Env& env) const override {
    return Guard([&] {
      Context context{&env, Budget(env.cancelled)};
      const Value value = ToNumeric(root_->Eval(context), "reading memory", context.budget);
      return ToTensor(value, value.full_dtype(), context.budget);
    });
  }

  void Assign(FrameEditor& frame, const Env& env, const Expression& value) const override {
    Guard([&] {
      Context context{&env, Budget(env.cancelled)};
      const uint32_t slot = TargetSlot(context);
      const Value given = static_cast<const Bound&>(value).root_->Eval(context);
      const Tensor fitted = Fitted(ToNumeric(given, "an assignment", context.budget),
                                   frame.tensor(slot).dtype, context.budget);
      frame.Edit(slot, [&](Tensor& tensor) {
        const TargetPart part(*root_, tensor, context);
        part.Put(fitted, context.budget);
      });
    });
  }

  void Write(FrameEditor& frame, const Env& env, uint64_t offset,
             std::string_view bytes) const override {
    Guard([&] {
      Context context{&env, Budget(env.cancelled)};
      frame.Edit(TargetSlot(context), [&](Tensor& tensor) {
        const TargetPart part(*root_, tensor, context);
        part.Write(offset, bytes);
      });
    });
  }

 private:
  // Of a variable that has a value.
  uint32_t TargetSlot(Context& context) const {
    const uint32_t slot = root_->Target(context);
    OPSTEP_CHECK(slot != 0, "only a variable or a part of one can be changed, such as w[0, :5]");
    const FrameView& frame = context.env->frame;
    OPSTEP_CHECK(frame.plan().slots[slot].storage != Storage::kStack, frame.plan().slots[slot].name,
                 " keeps values for later: they cannot be changed");
    const Instruction* by = nullptr;
    const ValueState state = frame.StateOf(slot, &by);
    if (state != ValueState::kPresent) FailAbsent(frame, slot, state, by);
    return slot;
  }

  NodePtr root_;
  bool needs_outputs_;
};

}  // namespace
}  // namespace expr

std::shared_ptr<const Expression> Expression::Bind(const proto::Expr& expr, const Plan& plan,
                                                   int block, const proto::OpDesc* op,
                                                   const PythonNames* python, NamesReport* report) {
  return expr::Guard([&]() -> std::shared_ptr<const Expression> {
    expr::Binder binder(plan, block, op, python, report);
    expr::NodePtr root = binder.Build(expr, 1);
    return std::make_shared<const expr::Bound>(std::move(root), binder.needs_outputs());
  });
}

}  // namespace opstep
