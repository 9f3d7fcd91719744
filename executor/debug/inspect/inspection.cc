// Answers a user's requests to a stopped thread: variables, values, bytes, edits.
#include "debug/inspect/inspection.h"

#include <algorithm>
#include <memory>
#include <set>

#include "base/tensor_stack.h"
#include "debug/expr/expression.h"
#include "debug/expr/names.h"
#include "debug/expr/node.h"
#include "debug/inspect/sequences.h"
#include "debug/inspect/stack_frames.h"
#include "debug/plans/slots.h"
#include "ir/print.h"
#include "runtime/traced_program.h"

namespace opstep {
namespace {

// Shown beside the summary; Evaluate asks for more of a tensor.
constexpr uint64_t kFirstElements = 32;
constexpr uint32_t kMaxPage = 1000;
constexpr size_t kMaxBytes = 3 << 20;

struct Named {
  std::string name;
  uint32_t slot = 0;                  // of a variable
  const proto::Attr* attr = nullptr;  // or an attribute
  Tensor value = {};                  // or a value held by Python
};

std::string ReaderText(const Plan& plan, uint32_t slot) {
  for (const proto::VarDesc& var : plan.desc.blocks(plan.slots[slot].block).vars()) {
    if (var.name() == plan.slots[slot].name) return TypeText(var);
  }
  return "reader";
}

void FillSlot(const Look& look, uint32_t slot, proto::Value* out) {
  const FrameView& frame = look.frame;
  if (frame.plan().slots[slot].storage == Storage::kStack) {
    const size_t kept = static_cast<const TensorStack*>(frame.tensor(slot).data)->depth();
    out->set_absent(Cat(kept, kept == 1 ? " value" : " values", " kept so far"));
    return;
  }
  if (frame.plan().slots[slot].storage == Storage::kReader) {
    out->set_absent(ReaderText(frame.plan(), slot));
    return;
  }
  const Instruction* by = nullptr;
  switch (frame.StateOf(slot, &by)) {
    case ValueState::kPresent:
      if (frame.tensor(slot)) {
        TensorToValue(frame.tensor(slot), kFirstElements, 0, 0, out, &look.cancelled);
        FillSequences(frame, slot, out->mutable_tensor());
      } else {
        out->set_absent("not there");
      }
      break;
    case ValueState::kNotWritten:
      out->set_absent(IsRunning(frame, slot) ? "not written yet" : "its block is not running");
      break;
    case ValueState::kReleased:
      out->set_absent(by ? Cat("released after op #", by->op_id, " ", by->op->name()) : "released");
      break;
  }
}

void FillAttr(const proto::Attr& attr, proto::Value* out) {
  proto::ValueList* list = nullptr;
  switch (attr.value_case()) {
    case proto::Attr::kB:
      out->set_b(attr.b());
      break;
    case proto::Attr::kI:
      out->set_i(attr.i());
      break;
    case proto::Attr::kF:
      out->set_f(attr.f());
      break;
    case proto::Attr::kS:
      out->set_s(attr.s());
      break;
    case proto::Attr::kBlock:
      out->set_i(attr.block());
      break;
    case proto::Attr::kBlocks:
      list = out->mutable_list();
      for (int64_t value : attr.blocks().values()) list->add_values()->set_i(value);
      break;
    case proto::Attr::kDtype:
      out->set_s(std::string(NameOf(static_cast<DType>(attr.dtype()))));
      break;
    case proto::Attr::kInts:
      list = out->mutable_list();
      for (int64_t value : attr.ints().values()) list->add_values()->set_i(value);
      break;
    case proto::Attr::kFloats:
      list = out->mutable_list();
      for (double value : attr.floats().values()) list->add_values()->set_f(value);
      break;
    case proto::Attr::kStrings:
      list = out->mutable_list();
      for (const std::string& value : attr.strings().values()) list->add_values()->set_s(value);
      break;
    case proto::Attr::kTensor: {
      const proto::TensorLiteral& literal = attr.tensor();
      Tensor tensor = Tensor::Allocate(
          {static_cast<DType>(literal.dtype()),
           Dims(std::span(literal.dims().data(), static_cast<size_t>(literal.dims_size())))});
      std::copy_n(literal.data().data(), std::min(literal.data().size(), tensor.bytes()),
                  tensor.as<char>());
      TensorToValue(tensor, kFirstElements, 0, 0, out);
      break;
    }
    case proto::Attr::VALUE_NOT_SET:
      out->set_absent("no value");
      break;
  }
}

// "X", or "X[1]" in a slot of several variables.
void AddSlots(const Plan& plan, int block, const proto::OpDesc& op,
              const google::protobuf::RepeatedPtrField<proto::Slot>& slots,
              std::vector<Named>* out) {
  for (const proto::Slot& slot : slots) {
    for (int i = 0; i < slot.vars_size(); ++i) {
      uint32_t index = plan.FindSlot(block, slot.vars(i));
      // An op also names variables of the blocks that it runs.
      for (const int inner : OpView(op).Blocks()) {
        if (!index) index = plan.FindSlot(inner, slot.vars(i));
      }
      if (!index) continue;
      out->push_back({slot.vars_size() == 1 ? slot.name() : Cat(slot.name(), "[", i, "]"), index});
    }
  }
}

void AddVariables(const Plan& plan, const std::vector<uint32_t>& slots, std::vector<Named>* out) {
  for (uint32_t slot : slots) out->push_back({plan.slots[slot].name, slot});
}

std::vector<Named> List(const Plan& plan, const FrameScope& at, proto::ScopeKind scope) {
  std::vector<Named> all;
  const bool run = at.op == nullptr;
  switch (scope) {
    case proto::SCOPE_INPUTS:
      if (run)
        AddVariables(plan, plan.feed_slots, &all);
      else
        AddSlots(plan, at.op_block, *at.op, at.op->inputs(), &all);
      break;
    case proto::SCOPE_OUTPUTS:
      if (run)
        AddVariables(plan, plan.fetch_slots, &all);
      else
        AddSlots(plan, at.op_block, *at.op, at.op->outputs(), &all);
      break;
    case proto::SCOPE_ATTRIBUTES:
      if (run) break;
      for (const proto::Attr& attr : at.op->attrs()) all.push_back({attr.name(), 0, &attr});
      break;
    case proto::SCOPE_BLOCK:
      for (const proto::VarDesc& var : plan.desc.blocks(at.block).vars()) {
        const uint32_t slot = plan.FindSlot(at.block, var.name());
        if (slot) all.push_back({var.name(), slot});
      }
      break;
    case proto::SCOPE_PARAMETERS:
    case proto::SCOPE_GRADIENTS:
      for (int block = 0; block < plan.desc.blocks_size(); ++block) {
        for (const proto::VarDesc& var : plan.desc.blocks(block).vars()) {
          const bool gradient = scope == proto::SCOPE_GRADIENTS;
          if (!gradient && !var.parameter()) continue;
          const std::string name = gradient ? GradName(var.name()) : var.name();
          if (const uint32_t slot = plan.FindSlot(block, name)) all.push_back({name, slot});
        }
      }
      break;
    default:
      Fail("this executor does not know scope ", static_cast<int>(scope));
  }
  return all;
}

// In imperative mode a block's variables are those held by Python's names: one name for each.
std::vector<Named> ListPython(const Look& look, const FrameScope& at, proto::ScopeKind scope) {
  const PythonNames names = NamesIn(look.frame, at, PythonNames::Of::kVariablesAndValues);
  const Plan& plan = look.frame.plan();
  std::set<std::pair<uint32_t, const void*>> known;
  std::vector<Named> all;
  for (const PythonName& python : names.all()) {
    const proto::ScopeKind of = python.name.ends_with(".gradient") ? proto::SCOPE_GRADIENTS
                                : python.parameter                 ? proto::SCOPE_PARAMETERS
                                                                   : proto::SCOPE_BLOCK;
    const uint32_t slot = python.value ? 0 : plan.FindSlot(at.block, python.variable);
    if (of != scope || (!slot && !python.value)) continue;
    if (known.emplace(slot, python.value.data).second)
      all.push_back({python.name, slot, nullptr, python.value});
  }
  return all;
}

template <typename Message>
FrameScope Find(const Look& look, const Message& wanted) {
  OPSTEP_CHECK(wanted.frame() < look.frames, "there is no frame ", wanted.frame(),
               ": they go from 0, the op, to ", look.frames - 1);
  return FindFrame(look.frame, look.at, wanted.frame(), wanted.op());
}

// An expression in one of the frames that Stopped reported.
class Asked {
 public:
  template <typename Message>
  Asked(const Look& look, const Message& wanted)
      : look_(look),
        at_(Find(look, wanted)),
        env_{look.frame, *at_.where, &look.cancelled},
        python_(NamesIn(look.frame, at_, PythonNames::Of::kVariablesAndValues)) {}

  std::shared_ptr<const Expression> Bind(const proto::Expr& expr) const {
    // A line that called the function which made the op does not know the op's own names.
    const proto::OpDesc* op = at_.kind == proto::StackFrame::MADE ? nullptr : at_.op;
    return Expression::Bind(expr, look_.frame.plan(), at_.block, op, &python_);
  }
  const Expression::Env& env() const { return env_; }

 private:
  const Look& look_;
  const FrameScope at_;
  const Expression::Env env_;
  const PythonNames python_;
};

// Does the name mean something other than the variable in this frame: a slot of the op, or a word
// such as `step`?
bool IsHidden(const PythonName& known, const FrameScope& at) {
  const std::string first = known.name.substr(0, known.name.find('.'));
  if (expr::IsSpecialName(first)) return true;
  if (at.op == nullptr || at.kind == proto::StackFrame::MADE) return false;
  for (const auto* slots : {&at.op->inputs(), &at.op->outputs()}) {
    for (const proto::Slot& slot : *slots) {
      if (slot.name() != first) continue;
      return known.value || first != known.name || slot.vars_size() != 1 ||
             slot.vars(0) != known.variable;
    }
  }
  return false;
}

}  // namespace

void GetVariables(const Look& look, const proto::GetVariables& wanted, proto::Variables* out) {
  const FrameView& frame = look.frame;
  const FrameScope at = Find(look, wanted);
  const Plan& plan = frame.plan();
  const bool of_python = IsTraced(plan) && wanted.scope() >= proto::SCOPE_BLOCK;
  const std::vector<Named> all =
      of_python ? ListPython(look, at, wanted.scope()) : List(plan, at, wanted.scope());
  out->set_total(static_cast<uint32_t>(all.size()));
  const uint32_t count = wanted.count() ? std::min(wanted.count(), kMaxPage) : kMaxPage;
  size_t bytes = 0;
  for (size_t i = wanted.start(); i < all.size() && i - wanted.start() < count; ++i) {
    OPSTEP_CHECK(!look.cancelled, "the command was cancelled");
    proto::NamedValue named;
    named.set_name(all[i].name);
    if (all[i].attr) {
      FillAttr(*all[i].attr, named.mutable_value());
    } else if (all[i].value) {
      named.set_variable(all[i].name);
      TensorToValue(all[i].value, kFirstElements, 0, 0, named.mutable_value(), &look.cancelled);
    } else {
      named.set_variable(plan.slots[all[i].slot].name);
      FillSlot(look, all[i].slot, named.mutable_value());
    }
    bytes += named.ByteSizeLong();
    if (bytes > kMaxBytes && out->variables_size() > 0) break;
    *out->add_variables() = std::move(named);
  }
}

void Evaluate(const Look& look, const proto::Evaluate& wanted, proto::Value* out) {
  const Asked asked(look, wanted);
  asked.Bind(wanted.expr())
      ->Evaluate(asked.env(), wanted.max_elements(), wanted.start(), wanted.count(), out);
}

void ListNames(const Look& look, const proto::ListNames& wanted, proto::Names* out) {
  const Plan& plan = look.frame.plan();
  const FrameScope at = Find(look, wanted);
  std::set<std::string> variables;
  for (int block = at.block; block >= 0; block = plan.blocks[block].parent) {
    for (const auto& [name, slot] : plan.slot_of[block]) {
      if (HoldsTensor(plan.slots[slot])) variables.insert(name);
    }
  }
  for (const std::string& name : variables) out->add_variables(name);
  const PythonNames python_names = NamesIn(look.frame, at, PythonNames::Of::kVariablesAndValues);
  // A layer has a value of one name in several programs.
  std::set<std::string> here;
  for (const PythonName& known : python_names.all()) {
    if (known.program == plan.program_id) here.insert(known.name);
  }
  for (const PythonName& known : python_names.all()) {
    if (known.program != plan.program_id && here.contains(known.name)) continue;
    // Also those of other blocks: their users can be asked for anywhere.
    const bool ours = std::any_of(plan.slot_of.begin(), plan.slot_of.end(), [&](const auto& slots) {
      return slots.contains(known.variable);
    });
    if (known.other && IsHidden(known, at)) out->add_slots_only(known.name);
    if ((!ours && !known.value) || known.other) continue;
    proto::PythonName* python = out->add_python();
    python->set_name(known.name);
    python->set_variable(known.variable);
    python->set_line(known.line);
    python->set_hidden(IsHidden(known, at));
  }
  if (at.op == nullptr || at.kind == proto::StackFrame::MADE) return;
  for (const proto::Slot& slot : at.op->inputs()) out->add_slots(slot.name());
  for (const proto::Slot& slot : at.op->outputs()) out->add_slots(slot.name());
  for (const proto::Attr& attr : at.op->attrs()) out->add_attributes(attr.name());
}

void FindVariable(const Look& look, const proto::FindVariable& wanted, proto::FoundVariable* out) {
  const Asked asked(look, wanted);
  try {
    const uint32_t slot = asked.Bind(wanted.expr())->Variable(asked.env());
    if (slot != 0) out->set_variable(look.frame.plan().slots[slot].name);
  } catch (const expr::NotInFrame& error) {
    out->set_variable(error.variable());
  } catch (const expr::UnknownName& error) {
    out->set_unknown(error.what());
  }
}

void ReadBytes(const Look& look, const proto::ReadBytes& wanted, ReadAhead& ahead,
               proto::Bytes* out) {
  const std::string key =
      Cat(wanted.frame(), " ", wanted.op(), " ", wanted.expr().SerializeAsString());
  if (ahead.key != key) {
    const Asked asked(look, wanted);
    ahead.Reset();
    ahead.value = asked.Bind(wanted.expr())->Read(asked.env());
    ahead.key = key;
    BufferPool::Keep();
  }
  const uint64_t total = ahead.value.bytes();
  OPSTEP_CHECK(wanted.offset() <= total, "byte ", wanted.offset(), " is not there: the value has ",
               total);
  out->set_total(total);
  const uint64_t count = std::min({wanted.count(), total - wanted.offset(), uint64_t{kMaxBytes}});
  if (count == 0) return;
  std::string data = BufferPool::Take();
  data.assign(ahead.value.as<char>() + wanted.offset(), count);
  out->set_data(std::move(data));
}

void Assign(const Look& look, const proto::Assign& wanted, proto::Value* out) {
  const Asked asked(look, wanted);
  const auto target = asked.Bind(wanted.target());
  target->Assign(look.frame, asked.env(), *asked.Bind(wanted.value()));
  // It is done, even if nobody waits for the answer.
  const Expression::Env env{look.frame, asked.env().where};
  target->Evaluate(env, kFirstElements, 0, 0, out);
}

void WriteBytes(const Look& look, const proto::WriteBytes& wanted) {
  const Asked asked(look, wanted);
  asked.Bind(wanted.target())->Write(look.frame, asked.env(), wanted.offset(), wanted.data());
}

}  // namespace opstep
