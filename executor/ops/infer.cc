#include "ops/infer.h"

#include <algorithm>

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
                   ": an attribute asks for what is not possible");
    }
    if (type.dims.known()) Tensor{type};  // says if it is too large
  }
  return context.outs();
}

}  // namespace opstep
