// The table of the functions of the expression language, and their nodes.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "debug/expr/node.h"
#include "ir/schema.h"

namespace opstep::expr {
namespace {

using Kind = Value::Kind;

Value ToFloat(const Value& x);

struct ReduceCall : Node {
  ReduceOp op = ReduceOp::kAny;
  NodePtr x, axis, keepdims;
  // isnan(x).any() and similar: counted without the array of booleans.
  std::optional<UnaryOp> test;
  Value Eval(Context& context) const override {
    Value value = x->Eval(context);
    const bool keep = keepdims && Truth(keepdims->Eval(context));
    if (test) {
      if (!axis && !keep) {
        if (auto counted = ReduceTest(op, *test, value)) return *std::move(counted);
      }
      value = Unary(*test, value, context.budget);
    }
    if (!axis) return Reduce(op, value, nullptr, keep, context.budget);
    const Value axes = axis->Eval(context);
    return Reduce(op, value, &axes, keep, context.budget);
  }
};

struct TestCall : Node {
  UnaryOp op = UnaryOp::kIsNan;
  NodePtr x;
  Value Eval(Context& context) const override {
    return Unary(op, x->Eval(context), context.budget);
  }
};

struct WhereCall : Node {
  NodePtr condition, a, b;
  Value Eval(Context& context) const override {
    const Value test = condition->Eval(context), left = a->Eval(context);
    return Where(test, left, b->Eval(context), context.budget);
  }
};

struct HistogramCall : Node {
  NodePtr x, bins, range;
  Value Eval(Context& context) const override {
    const Value values = x->Eval(context);
    const int64_t count = bins ? ToIndex(bins->Eval(context), "the number of bins") : 10;
    std::optional<std::pair<double, double>> over;
    if (range) {
      const Value two = range->Eval(context);
      OPSTEP_CHECK(two.kind == Kind::kList && two.list().size() == 2 && two.list()[0].is_number() &&
                       two.list()[1].is_number(),
                   "the range of histogram() is two finite numbers, the smaller one first");
      over.emplace(ToFloat(two.list()[0]).f, ToFloat(two.list()[1]).f);
    }
    return Histogram(values, count, over, context.budget);
  }
};

// f(x, one more argument, axis, keepdims); all but x may be absent.
using OrderFunction = Value (*)(const Value& x, const Value* second, const Value* axis,
                                bool keepdims, Budget& budget);
template <OrderFunction kFunction>
struct OrderCall : Node {
  NodePtr x, second, axis, keepdims;
  Value Eval(Context& context) const override {
    const Value values = x->Eval(context);
    const Value more = second ? second->Eval(context) : Value();
    const Value axes = axis ? axis->Eval(context) : Value();
    const bool keep = keepdims && Truth(keepdims->Eval(context));
    return kFunction(values, second ? &more : nullptr, axis ? &axes : nullptr, keep,
                     context.budget);
  }
};

template <Value (*kFunction)(const Value&)>
struct PlainCall : Node {
  NodePtr x;
  Value Eval(Context& context) const override { return kFunction(x->Eval(context)); }
};

Value Len(const Value& x) {
  if (x.kind == Kind::kString) return Value::Int(static_cast<int64_t>(x.string().size()));
  if (x.kind == Kind::kList) return Value::Int(static_cast<int64_t>(x.list().size()));
  OPSTEP_CHECK(x.is_array() && x.rank > 0, "len() takes an array or a list, not ", x.Describe());
  return Value::Int(x.dims[0]);
}

Value One(const Value& x, std::string_view function) {
  OPSTEP_CHECK(x.is_number() && x.numel() == 1, function,
               " takes a number or an array of one element, not ", x.Describe());
  return Element(x);
}

Value ToInt(const Value& x) {
  const Value one = One(x, "int()");
  if (one.kind != Kind::kFloat) return Value::Int(one.kind == Kind::kInt ? one.i : one.b);
  OPSTEP_CHECK(std::abs(one.f) < 0x1p63, "int() cannot take ", one.f);  // also false for NaN
  return Value::Int(static_cast<int64_t>(one.f));
}

Value ToFloat(const Value& x) {
  const Value one = One(x, "float()");
  if (one.kind == Kind::kFloat) return Value::Float(one.f);
  return Value::Float(static_cast<double>(one.kind == Kind::kInt ? one.i : one.b));
}

Value ToBool(const Value& x) { return Value::Bool(Truth(x)); }

template <ReduceOp kOp>
NodePtr MakeReduce(std::vector<NodePtr> args) {
  auto node = std::make_unique<ReduceCall>();
  node->op = kOp;
  if (auto* test = dynamic_cast<TestCall*>(args[0].get())) {
    node->test = test->op;
    node->x = std::move(test->x);
  } else {
    node->x = std::move(args[0]);
  }
  node->axis = std::move(args[1]);
  node->keepdims = std::move(args[2]);
  const bool constant = node->x->constant() && (!node->axis || node->axis->constant()) &&
                        (!node->keepdims || node->keepdims->constant());
  return Fold(std::move(node), constant);
}

template <UnaryOp kOp>
NodePtr MakeUnary(std::vector<NodePtr> args) {
  if (kOp < UnaryOp::kIsNan || args[0]->constant()) return UnaryNode(kOp, std::move(args[0]));
  auto node = std::make_unique<TestCall>();
  node->op = kOp;
  node->x = std::move(args[0]);
  return node;
}

template <Value (*kFunction)(const Value&)>
NodePtr MakePlain(std::vector<NodePtr> args) {
  auto node = std::make_unique<PlainCall<kFunction>>();
  node->x = std::move(args[0]);
  const bool constant = node->x->constant();
  return Fold(std::move(node), constant);
}

NodePtr MakeWhere(std::vector<NodePtr> args) {
  auto node = std::make_unique<WhereCall>();
  node->condition = std::move(args[0]);
  node->a = std::move(args[1]);
  node->b = std::move(args[2]);
  const bool constant = node->condition->constant() && node->a->constant() && node->b->constant();
  return Fold(std::move(node), constant);
}

NodePtr MakeHistogram(std::vector<NodePtr> args) {
  auto node = std::make_unique<HistogramCall>();
  node->x = std::move(args[0]);
  node->bins = std::move(args[1]);
  node->range = std::move(args[2]);
  return node;
}

// The places of the second argument, the axis and keepdims among the arguments; 0: it takes none.
template <OrderFunction kFunction, int kSecond, int kAxis, int kKeep>
NodePtr MakeOrder(std::vector<NodePtr> args) {
  auto node = std::make_unique<OrderCall<kFunction>>();
  node->x = std::move(args[0]);
  if (kSecond) node->second = std::move(args[kSecond]);
  if (kAxis) node->axis = std::move(args[kAxis]);
  if (kKeep) node->keepdims = std::move(args[kKeep]);
  return node;
}

Value PercentileOf(const Value& x, const Value* q, const Value* axis, bool keep, Budget& budget) {
  return Quantile(x, *q, 100, axis, keep, budget);
}
Value QuantileOf(const Value& x, const Value* q, const Value* axis, bool keep, Budget& budget) {
  return Quantile(x, *q, 1, axis, keep, budget);
}
Value MedianOf(const Value& x, const Value*, const Value* axis, bool keep, Budget& budget) {
  return Median(x, axis, keep, budget);
}
Value RoundOf(const Value& x, const Value* decimals, const Value*, bool, Budget& budget) {
  return Round(x, decimals ? ToIndex(*decimals, "the number of decimals") : 0, budget);
}
Value ReshapeOf(const Value& x, const Value* dims, const Value*, bool, Budget& budget) {
  return Reshape(x, *dims, budget);
}
Value SortOf(const Value& x, const Value*, const Value* axis, bool, Budget& budget) {
  return Sort(x, axis, budget);
}
Value TopKOf(const Value& x, const Value* k, const Value* axis, bool, Budget& budget) {
  return TopK(x, ToIndex(*k, "k"), axis, budget);
}

constexpr Function kFunctions[] = {
    {"any(x, axis, keepdims)", 1, MakeReduce<ReduceOp::kAny>},
    {"all(x, axis, keepdims)", 1, MakeReduce<ReduceOp::kAll>},
    {"min(x, axis, keepdims)", 1, MakeReduce<ReduceOp::kMin>},
    {"max(x, axis, keepdims)", 1, MakeReduce<ReduceOp::kMax>},
    {"mean(x, axis, keepdims)", 1, MakeReduce<ReduceOp::kMean>},
    {"sum(x, axis, keepdims)", 1, MakeReduce<ReduceOp::kSum>},
    {"std(x, axis, keepdims)", 1, MakeReduce<ReduceOp::kStd>},
    {"norm(x, axis, keepdims)", 1, MakeReduce<ReduceOp::kNorm>},
    {"argmax(x, axis, keepdims)", 1, MakeReduce<ReduceOp::kArgMax>},
    {"argmin(x, axis, keepdims)", 1, MakeReduce<ReduceOp::kArgMin>},
    {"isnan(x)", 1, MakeUnary<UnaryOp::kIsNan>},
    {"isinf(x)", 1, MakeUnary<UnaryOp::kIsInf>},
    {"isfinite(x)", 1, MakeUnary<UnaryOp::kIsFinite>},
    {"abs(x)", 1, MakeUnary<UnaryOp::kAbs>},
    {"sqrt(x)", 1, MakeUnary<UnaryOp::kSqrt>},
    {"exp(x)", 1, MakeUnary<UnaryOp::kExp>},
    {"log(x)", 1, MakeUnary<UnaryOp::kLog>},
    {"where(condition, a, b)", 3, MakeWhere},
    {"histogram(x, bins, range)", 1, MakeHistogram},
    {"percentile(x, q, axis, keepdims)", 2, MakeOrder<PercentileOf, 1, 2, 3>},
    {"quantile(x, q, axis, keepdims)", 2, MakeOrder<QuantileOf, 1, 2, 3>},
    {"median(x, axis, keepdims)", 1, MakeOrder<MedianOf, 0, 1, 2>},
    {"sort(x, axis)", 1, MakeOrder<SortOf, 0, 1, 0>},
    {"topk(x, k, axis)", 2, MakeOrder<TopKOf, 1, 2, 0>},
    {"round(x, decimals)", 1, MakeOrder<RoundOf, 1, 0, 0>},
    {"reshape(x, shape)", 2, MakeOrder<ReshapeOf, 1, 0, 0>},
    {"len(x)", 1, MakePlain<Len>},
    {"int(x)", 1, MakePlain<ToInt>},
    {"float(x)", 1, MakePlain<ToFloat>},
    {"bool(x)", 1, MakePlain<ToBool>},
    {"shape(x)", 1,
     [](std::vector<NodePtr> args) { return PropertyNode(std::move(args[0]), ".shape"); }},
    {"size(x)", 1,
     [](std::vector<NodePtr> args) { return PropertyNode(std::move(args[0]), ".size"); }},
    {"ndim(x)", 1,
     [](std::vector<NodePtr> args) { return PropertyNode(std::move(args[0]), ".ndim"); }},
    {"dtype(x)", 1,
     [](std::vector<NodePtr> args) { return PropertyNode(std::move(args[0]), ".dtype"); }},
    {"grad(w)", 1, nullptr},
    // var("name") is the variable; the binder resolves it too.
    {"var(x, axis, keepdims)", 1, MakeReduce<ReduceOp::kVar>},
};

}  // namespace

std::vector<std::string> Function::parameters() const {
  std::vector<std::string> names;
  std::string_view rest = signature.substr(signature.find('(') + 1);
  while (!rest.empty()) {
    const size_t end = rest.find_first_of(",)");
    names.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(rest.size(), end + (rest[end] == ',' ? 2 : 1)));
  }
  return names;
}

bool IsFunction(std::string_view name) {
  return std::any_of(std::begin(kFunctions), std::end(kFunctions),
                     [&](const Function& f) { return f.name() == name; });
}

const Function& FindFunction(std::string_view name) {
  std::vector<std::string> names;
  for (const Function& f : kFunctions) {
    if (f.name() == name) return f;
    names.emplace_back(f.name());
  }
  const std::string near = Nearest(name, names);
  if (near.empty()) Fail("there is no function '", name, "'");
  Fail("there is no function '", name, "': did you mean '", near, "'?");
}

}  // namespace opstep::expr
