// AppendOp: defaults, checks, shape rule and output variables of a new op.
#include "passes/build.h"

#include <algorithm>

#include "ir/verify.h"
#include "ops/infer.h"
#include "ops/op.h"
#include "passes/captures.h"
#include "passes/ragged.h"

namespace opstep {
namespace {

using Slots = google::protobuf::RepeatedPtrField<proto::Slot>;

template <typename Items>
std::string Suggest(std::string_view name, const Items& items) {
  std::vector<std::string> names;
  for (const auto& item : items) names.push_back(item.name);
  if (const std::string near = Nearest(name, names); !near.empty())
    return "; did you mean '" + near + "'?";
  std::string all;
  for (const std::string& n : names) all += (all.empty() ? "" : ", ") + n;
  return names.empty() ? "" : "; it has " + all;
}

// Puts the slots into schema order and takes empty ones out.
void OrderSlots(Slots& slots, const std::vector<SlotSchema>& schemas, std::string_view side) {
  Slots ordered;
  for (const proto::Slot& slot : slots) {
    const bool known = std::any_of(schemas.begin(), schemas.end(),
                                   [&](const SlotSchema& s) { return s.name == slot.name(); });
    OPSTEP_CHECK(known, "there is no ", side, " '", slot.name(), "'",
                 Suggest(slot.name(), schemas));
  }
  for (const SlotSchema& schema : schemas) {
    bool there = false;
    for (proto::Slot& slot : slots) {
      if (slot.name() != schema.name) continue;
      const bool any = std::any_of(slot.vars().begin(), slot.vars().end(),
                                   [](const std::string& name) { return !name.empty(); });
      if (!any) continue;
      OPSTEP_CHECK(!there, side, " '", slot.name(), "' is given twice");
      OPSTEP_CHECK(schema.variadic || slot.vars_size() == 1, side, " '", slot.name(),
                   "' takes one variable, not ", slot.vars_size());
      there = true;
      *ordered.Add() = std::move(slot);
    }
    OPSTEP_CHECK(there || schema.optional || schema.variadic, side, " '", schema.name,
                 "' is missing");
  }
  slots.Swap(&ordered);
}

void FillAttrs(proto::OpDesc& op, const OpSchema& schema) {
  for (proto::Attr& attr : *op.mutable_attrs()) {
    const AttrSchema* known = schema.FindAttr(attr.name());
    OPSTEP_CHECK(known != nullptr, "there is no attribute '", attr.name(), "'",
                 Suggest(attr.name(), schema.attrs));
    // A float attribute accepts a whole number.
    if (known->type == AttrType::kFloat && attr.value_case() == proto::Attr::kI) {
      attr.set_f(static_cast<double>(attr.i()));
    }
    OPSTEP_CHECK(TypeOf(attr) == known->type, "attribute '", attr.name(), "' must be of type ",
                 NameOf(known->type));
  }
  for (const AttrSchema& known : schema.attrs) {
    if (OpView(op).FindAttr(known.name) != nullptr) continue;
    OPSTEP_CHECK(known.default_value.has_value(), "attribute '", known.name, "' is missing");
    *op.add_attrs() = *known.default_value;
  }
  std::sort(op.mutable_attrs()->pointer_begin(), op.mutable_attrs()->pointer_end(),
            [](const proto::Attr* a, const proto::Attr* b) { return a->name() < b->name(); });
}

std::vector<VarType> InputTypes(const Program& program, int block, const proto::OpDesc& op) {
  std::vector<VarType> types;
  for (const Arg& arg : InputArgs(op, block)) {
    VarType& type = types.emplace_back();
    if (arg.name.empty()) continue;
    const SlotSchema& slot = *arg.slot;
    const proto::VarDesc* var = program.FindVar(arg.block, arg.name);
    OPSTEP_CHECK(var != nullptr, slot.name, " is '", arg.name,
                 "', which is not a variable of this program");
    type = TypeOf(*var);
    OPSTEP_CHECK(slot.dtypes.Has(type.dtype), slot.name, " ('", arg.name, "') is ",
                 NameOf(type.dtype), "; it takes ", slot.dtypes.Names());
  }
  return types;
}

bool Compatible(const Dims& a, const Dims& b) {
  if (a.rank() != b.rank()) return false;
  for (int i = 0; i < a.rank(); ++i) {
    if (a[i] >= 0 && b[i] >= 0 && a[i] != b[i]) return false;
  }
  return true;
}

void CheckOutput(const proto::VarDesc& var, const VarType& type) {
  if (var.dtype() == proto::DATA_TYPE_UNSPECIFIED) return;
  const VarType old = TypeOf(var);
  OPSTEP_CHECK(old.dtype == type.dtype && Compatible(old.dims, type.dims), "it gives ",
               type.ToString(), " but '", var.name(), "', into which it writes, is ",
               old.ToString());
}

// A new variable has the sequences of its inputs, where their offsets are known.
void SetLod(const Program& program, const Arg& out, const Lod& lod, proto::VarDesc& var) {
  for (const proto::LodLevel& level : lod) {
    if (program.FindVar(out.block, level.offsets()) == nullptr ||
        program.FindVar(out.block, level.steps()) == nullptr) {
      return;
    }
  }
  *var.mutable_lod() = lod;
}

}  // namespace

const proto::OpDesc& AppendOp(Program& program, int block, proto::OpDesc op, int position) {
  try {
    const OpSchema& schema = GetOp(op.type()).schema;
    FillAttrs(op, schema);
    FillCaptures(program.desc(), block, op);
    OrderSlots(*op.mutable_inputs(), schema.inputs, "input");
    OrderSlots(*op.mutable_outputs(), schema.outputs, "output");
    if (const auto problem = FindAliasProblem(op, schema))
      Fail(problem->what, ": write into another variable");
    const std::vector<VarType> inputs = InputTypes(program, block, op);
    const std::vector<VarType> types = InferTypes(op, inputs);
    const std::vector<Lod> lods = InheritedLod(program, block, op, inputs);
    const std::vector<Arg> outputs = OutputArgs(op, block);
    // Variables that it hands to its blocks have their declared types.
    const auto declared = [&](const Arg& out) {
      return out.inner() && GetOp(op.type()).shapes_blocks &&
             program.FindVar(out.block, out.name) != nullptr;
    };
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Arg& out = outputs[i];
      if (out.name.empty() || declared(out)) continue;
      OPSTEP_CHECK(types[i].dtype != DType::kNone, "its shape rule gave no type for output ", i);
      if (const proto::VarDesc* var = program.FindVar(out.block, out.name))
        CheckOutput(*var, types[i]);
    }
    if (op.name().empty()) op.set_name(program.UniqueOpName(op.type() + "_0"));
    OPSTEP_CHECK(!program.HasOpName(op.name()), "there is already an op named '", op.name(), "'");
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Arg& out = outputs[i];
      if (out.name.empty() || declared(out)) continue;
      proto::VarDesc* var = program.MutableVar(out.block, out.name);
      if (var == nullptr) {
        proto::VarDesc made;
        made.set_name(out.name);
        made.set_kind(out.slot->kind);
        var = &program.CreateVar(out.block, std::move(made));
      }
      if (var->dtype() == proto::DATA_TYPE_UNSPECIFIED) {
        SetType(*var, types[i]);
        SetLod(program, out, lods[i], *var);
      }
    }
  } catch (const Error& error) {
    const std::string where = program.Where(op);
    throw Error(Cat("[", op.type(), "] ", error.what(), where.empty() ? "" : " (" + where + ")"));
  }
  return program.InsertOp(block, std::move(op), position);
}

void AddOutput(Program& program, uint32_t op_id, const std::string& slot, const std::string& name) {
  int block = 0;
  OPSTEP_CHECK(program.FindOp(op_id, &block) != nullptr, "there is no op #", op_id);
  proto::OpDesc& op = *program.MutableOp(op_id);
  proto::Slot& out = *op.add_outputs();
  out.set_name(slot);
  out.add_vars(name);
  const OpSchema& schema = GetOp(op.type()).schema;
  OrderSlots(*op.mutable_outputs(), schema.outputs, "output");
  const std::vector<VarType> types = InferTypes(op, InputTypes(program, block, op));
  const std::vector<Arg> outputs = OutputArgs(op, block);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].name != name) continue;
    proto::VarDesc var;
    var.set_name(name);
    SetType(var, types[i]);
    program.CreateVar(block, std::move(var));
  }
}

}  // namespace opstep
