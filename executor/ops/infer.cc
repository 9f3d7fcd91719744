#include "ops/infer.h"

#include <algorithm>

#include "ops/op.h"

namespace opstep {
namespace {

using Slots = google::protobuf::RepeatedPtrField<proto::Slot>;

std::vector<std::string> Flat(const Slots& slots, const std::vector<SlotSchema>& schemas) {
  std::vector<std::string> names;
  for (const SlotSchema& schema : schemas) {
    const auto slot = std::find_if(slots.begin(), slots.end(),
                                   [&](const proto::Slot& s) { return s.name() == schema.name; });
    if (slot != slots.end()) {
      names.insert(names.end(), slot->vars().begin(), slot->vars().end());
    } else if (!schema.variadic) {
      names.emplace_back();
    }
  }
  return names;
}

}  // namespace

std::vector<std::string> FlatInputs(const proto::OpDesc& op) {
  return Flat(op.inputs(), GetOp(op.type()).schema.inputs);
}

std::vector<std::string> FlatOutputs(const proto::OpDesc& op) {
  return Flat(op.outputs(), GetOp(op.type()).schema.outputs);
}

std::vector<VarType> InferTypes(const proto::OpDesc& op, const std::vector<VarType>& inputs) {
  ShapeContext context{OpView(op), inputs, static_cast<int>(FlatOutputs(op).size())};
  GetOp(op.type()).shape(context);
  return context.outs();
}

}  // namespace opstep
