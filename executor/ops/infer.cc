// Flat names of an op's variables, shape inference, and the check that a gradient op fits its op.
#include "ops/infer.h"

#include <algorithm>
#include <unordered_map>

#include "ops/op.h"

namespace opstep {
namespace {

using Slots = google::protobuf::RepeatedPtrField<proto::Slot>;

// Calls f(schema, name) for each variable.
template <typename F>
void ForEachVar(const Slots& slots, const std::vector<SlotSchema>& schemas, F&& f) {
  static const std::string nothing;
  for (const SlotSchema& schema : schemas) {
    const auto slot = std::find_if(slots.begin(), slots.end(),
                                   [&](const proto::Slot& s) { return s.name() == schema.name; });
    if (slot != slots.end()) {
      for (const std::string& name : slot->vars()) f(schema, name);
    } else if (!schema.variadic) {
      f(schema, nothing);
    }
  }
}

std::vector<std::string> Flat(const Slots& slots, const std::vector<SlotSchema>& schemas) {
  std::vector<std::string> names;
  ForEachVar(slots, schemas,
             [&](const SlotSchema&, const std::string& name) { names.push_back(name); });
  return names;
}

std::vector<Arg> Args(const proto::OpDesc& op, const Slots& slots,
                      const std::vector<SlotSchema>& schemas, int block) {
  std::vector<Arg> args;
  ForEachVar(slots, schemas, [&](const SlotSchema& schema, const std::string& name) {
    args.push_back(
        {name, &schema, schema.of_block.empty() ? block : OpView(op).Block(schema.of_block)});
  });
  return args;
}

// Not `exact`: the number of elements is enough.
bool Agree(const VarType& a, const VarType& b, bool exact) {
  if (a.dtype == DType::kNone || b.dtype == DType::kNone) return true;  // not given
  if (!exact && a.dtype == b.dtype)
    return !a.dims.known() || !b.dims.known() || a.dims.numel() == b.dims.numel();
  if (a.dtype != b.dtype || a.dims.rank() != b.dims.rank()) return false;
  for (int i = 0; i < a.dims.rank(); ++i) {
    if (a.dims[i] >= 0 && b.dims[i] >= 0 && a.dims[i] != b.dims[i]) return false;
  }
  return true;
}

// The variables of a gradient op by their slots, with the variables of its outputs: a gradient has
// the type of its variable.
class GradientTypes {
 public:
  GradientTypes(const proto::OpDesc& op, const std::vector<VarType>& inputs,
                const std::vector<VarType>& outputs) {
    const std::vector<Arg> in = InputArgs(op, 0), out = OutputArgs(op, 0);
    for (size_t i = 0; i < in.size(); ++i) types_[in[i].slot->name].push_back(inputs[i]);
    for (size_t i = 0; i < out.size(); ++i) types_[out[i].slot->name].push_back(outputs[i]);
  }

  // Of the slot itself, or of its gradient; null when both are missing.
  const std::vector<VarType>* Find(const std::string& slot) const {
    for (const std::string& name : {slot, "d" + slot}) {
      const auto it = types_.find(name);
      if (it != types_.end() && !it->second.empty() && it->second[0].dtype != DType::kNone)
        return &it->second;
    }
    return nullptr;
  }

  // The number of variables in a list, given or not.
  size_t Count(const std::string& slot) const {
    size_t count = 0;
    for (const std::string& name : {slot, "d" + slot}) {
      const auto it = types_.find(name);
      if (it != types_.end()) count = std::max(count, it->second.size());
    }
    return count;
  }

  void Check(const std::string& slot, const std::vector<VarType>& expected, bool exact) const {
    for (const std::string& name : {slot, "d" + slot}) {
      const auto it = types_.find(name);
      if (it == types_.end()) continue;
      OPSTEP_CHECK(it->second.size() == expected.size(), "it has ", it->second.size(), " ", name,
                   " but needs ", expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        OPSTEP_CHECK(Agree(it->second[i], expected[i], exact), name, " is ",
                     it->second[i].ToString(), " but must be ", expected[i].ToString());
      }
    }
  }

 private:
  std::unordered_map<std::string, std::vector<VarType>> types_;
};

// A gradient op must fit its forward op: kernels rely on it, and a file may contain anything.
void CheckGradient(const proto::OpDesc& op, const std::vector<VarType>& inputs,
                   const std::vector<VarType>& outputs) {
  constexpr std::string_view kEnding = "_grad";
  if (!op.type().ends_with(kEnding)) return;
  const OpDef* forward =
      FindOp(std::string_view(op.type()).substr(0, op.type().size() - kEnding.size()));
  if (forward == nullptr || forward->shape == nullptr) return;
  const GradientTypes types(op, inputs, outputs);
  proto::OpDesc desc;
  desc.set_type(forward->schema.type);
  std::vector<VarType> given;
  for (const SlotSchema& slot : forward->schema.inputs) {
    const std::vector<VarType>* found = types.Find(slot.name);
    if (found == nullptr && !slot.optional) return;
    if (found != nullptr) {
      types.Check(slot.name, *found, true);
      proto::Slot& made = *desc.add_inputs();
      made.set_name(slot.name);
      for (const VarType& type : *found) {
        made.add_vars("x");
        given.push_back(type);
      }
    } else if (!slot.variadic) {
      given.emplace_back();
    }
  }
  // Attributes that the gradient does not have change only the sizes.
  bool exact = true;
  for (const AttrSchema& attr : forward->schema.attrs) {
    const proto::Attr* found = OpView(op).FindAttr(attr.name);
    exact = exact && found != nullptr;
    if (found == nullptr && !attr.default_value.has_value()) return;
    *desc.add_attrs() = found != nullptr ? *found : *attr.default_value;
  }
  for (const SlotSchema& slot : forward->schema.outputs) {
    const std::vector<VarType>* found = types.Find(slot.name);
    if (found == nullptr && slot.optional) continue;
    proto::Slot& made = *desc.add_outputs();
    made.set_name(slot.name);
    const size_t count = slot.variadic ? types.Count(slot.name) : 1;
    for (size_t i = 0; i < count; ++i) made.add_vars("y");
  }
  ShapeContext context{OpView(desc), given, static_cast<int>(FlatOutputs(desc).size())};
  try {
    forward->shape(context);
  } catch (const Error&) {
    if (exact) throw;
    // Such an op changes only the sizes.
    for (int i = 0; i < context.n_out(); ++i) context.set_out(i, given[0]);
  }
  const std::vector<Arg> args = OutputArgs(desc, 0);
  std::unordered_map<std::string, std::vector<VarType>> expected;
  for (size_t i = 0; i < args.size(); ++i)
    expected[args[i].slot->name].push_back(context.outs()[i]);
  for (const auto& [slot, type] : expected) types.Check(slot, type, exact);
}

}  // namespace

std::vector<std::string> FlatInputs(const proto::OpDesc& op) {
  return Flat(op.inputs(), GetOp(op.type()).schema.inputs);
}

std::vector<std::string> FlatOutputs(const proto::OpDesc& op) {
  return Flat(op.outputs(), GetOp(op.type()).schema.outputs);
}

std::vector<Arg> InputArgs(const proto::OpDesc& op, int block) {
  return Args(op, op.inputs(), GetOp(op.type()).schema.inputs, block);
}

std::vector<Arg> OutputArgs(const proto::OpDesc& op, int block) {
  return Args(op, op.outputs(), GetOp(op.type()).schema.outputs, block);
}

std::vector<VarType> InferTypes(const proto::OpDesc& op, const std::vector<VarType>& inputs,
                                const std::vector<const Tensor*>& values) {
  ShapeContext context{OpView(op), inputs, static_cast<int>(FlatOutputs(op).size())};
  context.set_values(values);
  GetOp(op.type()).shape(context);
  for (const VarType& type : context.outs()) {
    for (const int64_t size : type.dims) {
      OPSTEP_CHECK(size >= -1, "a result would have a size of ", size,
                   ": an attribute has an impossible value");
    }
    if (type.dims.known()) Tensor{type};  // throws if it is too large
  }
  CheckGradient(op, inputs, context.outs());
  return context.outs();
}

}  // namespace opstep
