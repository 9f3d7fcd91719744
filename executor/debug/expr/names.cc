// Names: slots, special words, Python's names, variables and attributes at one op.
#include "debug/expr/names.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "debug/agent.h"
#include "ir/schema.h"
#include "ops/op.h"

namespace opstep::expr {
namespace {

template <typename Slots>
bool Holds(const Slots& slots, const std::string& variable) {
  for (const proto::Slot& slot : slots) {
    for (const std::string& name : slot.vars()) {
      if (name == variable) return true;
    }
  }
  return false;
}

Value FromLiteral(const proto::TensorLiteral& literal) {
  OPSTEP_CHECK(literal.dtype() > 0 && literal.dtype() <= static_cast<int>(DType::kBool),
               "the attribute has no type");
  Dims dims;
  for (int64_t size : literal.dims()) dims.push_back(size);
  OPSTEP_CHECK(dims.known(), "the attribute's shape is not known");
  const Tensor t = Tensor::Allocate({static_cast<DType>(literal.dtype()), dims});
  OPSTEP_CHECK(literal.data().size() == t.bytes(), "the attribute's data do not fit its shape");
  std::memcpy(t.data, literal.data().data(), t.bytes());
  return Value::Of(t);
}

template <typename Items, typename F>
Value ListOf(const Items& items, F make) {
  std::vector<Value> values;
  for (const auto& item : items) values.push_back(make(item));
  return Value::List(std::move(values));
}

Value FromAttr(const proto::Attr& attr) {
  switch (attr.value_case()) {
    case proto::Attr::kB:
      return Value::Bool(attr.b());
    case proto::Attr::kI:
      return Value::Int(attr.i());
    case proto::Attr::kF:
      return Value::Float(attr.f());
    case proto::Attr::kS:
      return Value::String(attr.s());
    case proto::Attr::kInts:
      return ListOf(attr.ints().values(), [](int64_t v) { return Value::Int(v); });
    case proto::Attr::kFloats:
      return ListOf(attr.floats().values(), [](double v) { return Value::Float(v); });
    case proto::Attr::kStrings:
      return ListOf(attr.strings().values(), [](const std::string& v) { return Value::String(v); });
    case proto::Attr::kDtype:
      OPSTEP_CHECK(attr.dtype() >= 0 && attr.dtype() <= static_cast<int>(DType::kBool),
                   "the attribute has no type");
      return Value::String(std::string(NameOf(static_cast<DType>(attr.dtype()))));
    case proto::Attr::kBlock:
      return Value::Int(attr.block());
    case proto::Attr::kBlocks:
      return ListOf(attr.blocks().values(), [](int64_t v) { return Value::Int(v); });
    case proto::Attr::kTensor:
      return FromLiteral(attr.tensor());
    case proto::Attr::VALUE_NOT_SET:
      break;
  }
  Fail("the attribute ", attr.name(), " has no value");
}

// A name that gets its meaning later.
struct LateName : Node {
  Value Eval(Context&) const override { Fail("the expression is not bound yet"); }
};

// The node, or one for a name that may get a meaning later.
template <typename F>
NodePtr NowOrLate(NamesReport* report, F find) {
  if (!report || !report->may_be_late) return find();
  try {
    return find();
  } catch (const Error&) {
    report->late = true;
    return std::make_unique<LateName>();
  }
}

std::string Join(const std::vector<std::string>& parts, size_t count) {
  std::string name = parts[0];
  for (size_t i = 1; i < count; ++i) name += "." + parts[i];
  return name;
}

}  // namespace

bool IsSpecialName(std::string_view name) {
  static constexpr std::string_view kWords[] = {"step", "iteration", "op", "block", "nan", "inf"};
  return std::find(std::begin(kWords), std::end(kWords), name) != std::end(kWords);
}

const proto::Slot* Names::SlotOf(const std::string& name, bool* output, bool* variadic) const {
  if (op_ == nullptr) return nullptr;
  const OpSchema* schema = FindSchema(op_->type());
  for (const bool out : {false, true}) {
    for (const proto::Slot& slot : out ? op_->outputs() : op_->inputs()) {
      if (slot.name() != name) continue;
      const SlotSchema* known = !schema ? nullptr
                                : out   ? schema->FindOutput(name)
                                        : schema->FindInput(name);
      *output = out;
      *variadic = known ? known->variadic : slot.vars_size() > 1;
      return &slot;
    }
  }
  return nullptr;
}

NodePtr Names::FindSlot(const std::string& name) {
  bool output = false, variadic = false;
  const proto::Slot* slot = SlotOf(name, &output, &variadic);
  if (slot == nullptr) return nullptr;
  const auto node = [&](const std::string& variable) {
    const uint32_t index = variable.empty() ? 0 : plan_.FindSlot(block_, variable);
    OPSTEP_CHECK(index != 0, name, " is not given to op #", op_->id(), " ", op_->name(),
                 " in this run");
    return SlotNode(index);
  };
  needs_outputs_ |= output;
  if (!variadic) return node(slot->vars_size() > 0 ? slot->vars(0) : "");
  std::vector<NodePtr> nodes;
  for (const std::string& variable : slot->vars()) nodes.push_back(node(variable));
  return ListNode(std::move(nodes));
}

NodePtr Names::FindVariable(const std::string& name) {
  const uint32_t slot = plan_.FindSlot(block_, name);
  if (slot == 0) return nullptr;
  // An op that updates a variable in place: its value before the op is there to be seen.
  if (op_ && Holds(op_->outputs(), name) && !Holds(op_->inputs(), name)) needs_outputs_ = true;
  return SlotNode(slot);
}

NodePtr Names::FindSpecial(const std::string& name) {
  if (name == "step") return FrameNode(Frame::kStep);
  if (name == "iteration") return FrameNode(Frame::kIteration);
  if (name == "block") return Constant(Value::Int(block_));
  if (name == "nan") return Constant(Value::Float(std::nan("")));
  if (name == "inf") return Constant(Value::Float(HUGE_VAL));
  if (name == "op") {
    OPSTEP_CHECK(op_ != nullptr, "there is no op in this frame: select the frame of an op");
    return Constant(Value::String(op_->name()));
  }
  return nullptr;
}

NodePtr Names::FindAttr(const std::string& name) const {
  if (op_ == nullptr) return nullptr;
  for (const proto::Attr& attr : op_->attrs()) {
    if (attr.name() == name) return Constant(FromAttr(attr));
  }
  return nullptr;
}

const PythonName* Names::Python(const std::string& name) const {
  return python_ ? python_->Find(plan_.program_id, name) : nullptr;
}

NodePtr Names::FindPython(const std::vector<std::string>& parts, size_t* used) {
  for (size_t count = parts.size(); count > 0; --count) {
    const std::string name = Join(parts, count);
    const PythonName* python = Python(name);
    if (python && python->other) {
      // A program variable of that name is a different variable. Attributes that hold variables are
      // known themselves: where `train` is a reader, `train.step` is the program's.
      for (size_t n = python->known ? count : parts.size(); n >= count; --n) {
        const std::string own = Join(parts, n);
        if (plan_.FindSlot(block_, own) != 0) FailOther(*python, own);
      }
      continue;
    }
    if (!python || (count < parts.size() && !IsProperty("." + parts[count]))) continue;
    *used = count;
    return Held(*python);
  }
  return nullptr;
}

// The variable or value that the name holds.
NodePtr Names::Held(const PythonName& python) {
  if (python.value) return Constant(Value::Of(python.value));
  const std::string& variable = python.variable;
  if (!IsSameModel(python.program, plan_.program_id)) {
    Fail("Python's ", python.name, " is the variable ", variable, " of another program than '",
         plan_.program_name, "'");
  }
  if (NodePtr node = FindVariable(variable)) return node;
  const bool elsewhere = std::any_of(plan_.slot_of.begin(), plan_.slot_of.end(),
                                     [&](const auto& slots) { return slots.contains(variable); });
  throw NotInFrame(
      Cat("Python's ", python.name, " is the variable ", variable,
          elsewhere ? ", which is in another block" : ", which this run does not compute"),
      variable);
}

NodePtr Names::Path(const std::string& first, const std::string& path) {
  bool output = false, variadic = false;
  if (SlotOf(first, &output, &variadic) || IsSpecialName(first)) return nullptr;
  const PythonName* python = Python(first + path);
  if (!python) {
    // The layers of a Sequential are attributes too.
    std::string steps = first;
    for (const char c : path) {
      if (c == '[')
        steps += ".step_";
      else if (c != ']')
        steps += c;
    }
    python = Python(steps);
  }
  if (!python || python->other) return nullptr;
  if (report_) report_->late = true;
  return Held(*python);
}

// op.type, op.id, op.name; and its attributes, which may share a name with something else.
NodePtr Names::OpProperty(const std::string& name) const {
  if (name == "type") return Constant(Value::String(op_->type()));
  if (name == "id") return Constant(Value::Int(op_->id()));
  if (name == "name") return Constant(Value::String(op_->name()));
  if (NodePtr attr = FindAttr(name)) return attr;
  Fail("the op has no attribute '", name, "': it has op.type, op.id, op.name and its attributes");
}

NodePtr Names::Resolve(const std::vector<std::string>& parts) {
  return NowOrLate(report_, [&] { return ResolveNow(parts); });
}

NodePtr Names::Variable(const std::string& name) {
  return NowOrLate(report_, [&] { return VariableNow(name); });
}

NodePtr Names::Gradient(const std::string& name) {
  return NowOrLate(report_, [&] { return GradientNow(name); });
}

// Not in an expression that is asked for at a stop: reading the names takes time.
void Names::ReportHidden(const std::string& name) const {
  if (!report_ || !report_->hidden.empty()) return;
  const PythonName* python = Python(name);
  if (!python || (python->other && !python->unread)) return;
  bool output = false, variadic = false;
  const proto::Slot* slot = SlotOf(name, &output, &variadic);
  const std::string& variable = python->variable;
  if (slot && !variable.empty() && slot->vars_size() == 1 && slot->vars(0) == variable) return;
  const std::string_view what = !slot    ? "a word of expressions"
                                : output ? "the op's output"
                                         : "the op's input";
  report_->hidden = Cat("'", name, "' is ", what, " here, not the variable of that name in Python");
  if (!variable.empty()) report_->hidden += Cat(", which is var(\"", variable, "\")");
}

NodePtr Names::ResolveNow(const std::vector<std::string>& parts) {
  const std::string& first = parts[0];
  size_t used = 1;
  NodePtr node = FindSlot(first);
  if (!node) node = FindSpecial(first);
  if (node) ReportHidden(first);
  bool is_op = node && first == "op";
  if (!node && (node = FindPython(parts, &used)) && report_) report_->late = true;
  if (!node) {
    for (used = parts.size(); used > 1; --used) {
      if ((node = FindVariable(Join(parts, used)))) break;
    }
  }
  if (!node) {
    used = 1;
    node = FindVariable(first);
    if (!node && first.ends_with(GradName(""))) {
      bool output, variadic;
      const std::string base = first.substr(0, first.size() - GradName("").size());
      if (SlotOf(base, &output, &variadic)) node = Gradient(base);
    }
    if (!node) node = FindAttr(first);
  }
  if (!node) FailUnknown(Join(parts, parts.size()), "variable");
  for (; used < parts.size(); ++used) {
    node = is_op ? OpProperty(parts[used]) : PropertyNode(std::move(node), "." + parts[used]);
    is_op = false;
  }
  return node;
}

NodePtr Names::VariableNow(const std::string& name) {
  if (NodePtr node = FindVariable(name)) return node;
  const PythonName* python = Python(name);
  if (python && python->value) return Constant(Value::Of(python->value));
  FailUnknown(name, "variable");
}

NodePtr Names::GradientNow(const std::string& name) {
  bool output = false, variadic = false;
  const proto::Slot* slot = SlotOf(name, &output, &variadic);
  OPSTEP_CHECK(!slot || slot->vars_size() == 1, "grad() takes one variable: name one of those in ",
               name);
  std::string variable = slot ? slot->vars(0) : name;
  if (const PythonName* python = slot ? nullptr : Python(name); python && !python->value) {
    if (report_) report_->late = true;
    if (python->other && plan_.FindSlot(block_, GradName(name)) != 0)
      FailOther(*python, GradName(name));
    if (!python->other) variable = python->variable;
  }
  if (NodePtr node = FindVariable(GradName(variable))) return node;
  // Of a value in imperative mode.
  if (const PythonName* gradient = Python(name + ".gradient"); gradient && gradient->value)
    return Constant(Value::Of(gradient->value));
  if (const PythonName* python = Python(name); python && python->value)
    Fail(name, " has no gradient: no backward has computed one since it was cleared");
  if (plan_.FindSlot(block_, variable) == 0) FailUnknown(variable, "variable");
  Fail(variable, " has no gradient in this program");
}

void Names::FailOther(const PythonName& python, const std::string& variable) const {
  const std::string program = Cat("; write var('", variable, "') for the program's variable");
  if (python.known) {
    Fail("Python's ", python.name, " holds no variable of this program here", program,
         PythonNamesHere());
  }
  Fail("what Python's ", python.name, " held here is not known", program, PythonNamesHere());
}

// "; Python's names here: h, x, self.w, …"
std::string Names::PythonNamesHere() const {
  constexpr size_t kMost = 8;
  std::vector<std::string> names;
  if (python_ != nullptr) {
    for (const PythonName& python : python_->all()) {
      if (!python.other) names.push_back(python.name);
    }
  }
  if (names.empty() && op_ != nullptr && op_->calls().empty())
    return "; of Python's names only those of its own frames are known: choose one of them";
  if (names.empty()) return "";
  std::sort(names.begin(), names.end());
  std::string text = "; Python's names here: ";
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) text += (i ? ", " : "") + names[i];
  return names.size() > kMost ? text + ", …" : text;
}

void Names::FailUnknown(const std::string& name, std::string_view kind) const {
  std::vector<std::string> known = {"step", "iteration", "op", "block", "nan", "inf"};
  for (int b = block_; b >= 0 && b < plan_.desc.blocks_size(); b = plan_.desc.blocks(b).parent()) {
    for (const proto::VarDesc& var : plan_.desc.blocks(b).vars()) {
      if (var.name() == name)
        throw UnknownName(
            Cat("the variable ", name, " is in the program, but this run does not compute it"));
    }
  }
  for (int b = block_; b >= 0 && b < static_cast<int>(plan_.blocks.size());
       b = plan_.blocks[b].parent) {
    if (b >= static_cast<int>(plan_.slot_of.size())) break;
    for (const auto& [variable, slot] : plan_.slot_of[b]) known.push_back(variable);
  }
  if (op_ != nullptr) {
    for (const auto& slot : op_->inputs()) known.push_back(slot.name());
    for (const auto& slot : op_->outputs()) known.push_back(slot.name());
    for (const auto& attr : op_->attrs()) known.push_back(attr.name());
  }
  if (python_ != nullptr) {
    for (const PythonName& python : python_->all()) {
      if (!python.other) known.push_back(python.name);
    }
  }
  if (IsFunction(name)) Fail(name, " is a function: write ", name, "(…)");
  // Hash tables have no fixed order: sort, so that the suggestion is the same every time.
  std::sort(known.begin(), known.end());
  const std::string near = Nearest(name, known);
  const std::string none = Cat("there is no ", kind, " '", name, "' here");
  throw UnknownName(near.empty() ? none + PythonNamesHere()
                                 : Cat(none, ": did you mean '", near, "'?"));
}

}  // namespace opstep::expr
