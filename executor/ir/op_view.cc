// OpView: slots and attributes of an op; makers of attributes.
#include "ir/op_view.h"

namespace opstep {
namespace {

std::vector<std::string> VarsOf(const google::protobuf::RepeatedPtrField<proto::Slot>& slots,
                                std::string_view name) {
  for (const proto::Slot& slot : slots) {
    if (slot.name() == name) return {slot.vars().begin(), slot.vars().end()};
  }
  return {};
}

std::string Only(std::vector<std::string> vars) {
  return vars.size() == 1 ? std::move(vars[0]) : "";
}

proto::Attr Named(std::string name) {
  proto::Attr attr;
  attr.set_name(std::move(name));
  return attr;
}

}  // namespace

std::vector<std::string> OpView::Inputs(std::string_view slot) const {
  return VarsOf(desc_->inputs(), slot);
}
std::vector<std::string> OpView::Outputs(std::string_view slot) const {
  return VarsOf(desc_->outputs(), slot);
}
std::string OpView::Input(std::string_view slot) const { return Only(Inputs(slot)); }
std::string OpView::Output(std::string_view slot) const { return Only(Outputs(slot)); }

const proto::Attr* OpView::FindAttr(std::string_view name) const {
  for (const proto::Attr& attr : desc_->attrs()) {
    if (attr.name() == name) return &attr;
  }
  return nullptr;
}

const proto::Attr& OpView::Need(std::string_view name) const {
  const proto::Attr* attr = FindAttr(name);
  OPSTEP_CHECK(attr != nullptr, "attribute '", name, "' is missing");
  return *attr;
}

bool OpView::Bool(std::string_view name) const { return Need(name).b(); }
int64_t OpView::Int(std::string_view name) const { return Need(name).i(); }
double OpView::Float(std::string_view name) const { return Need(name).f(); }
const std::string& OpView::String(std::string_view name) const { return Need(name).s(); }
int OpView::Block(std::string_view name) const { return Need(name).block(); }
std::vector<int> OpView::Blocks() const {
  std::vector<int> blocks;
  for (const proto::Attr& attr : desc_->attrs()) {
    if (attr.value_case() == proto::Attr::kBlock) blocks.push_back(attr.block());
    for (const int64_t block : attr.blocks().values()) blocks.push_back(static_cast<int>(block));
  }
  return blocks;
}

const proto::TensorLiteral& OpView::Literal(std::string_view name) const {
  return Need(name).tensor();
}

opstep::DType OpView::DType(std::string_view name) const {
  return static_cast<opstep::DType>(Need(name).dtype());
}

std::vector<int64_t> OpView::Ints(std::string_view name) const {
  const auto& values = Need(name).ints().values();
  return {values.begin(), values.end()};
}

std::vector<double> OpView::Floats(std::string_view name) const {
  const auto& values = Need(name).floats().values();
  return {values.begin(), values.end()};
}

std::vector<std::string> OpView::Strings(std::string_view name) const {
  const auto& values = Need(name).strings().values();
  return {values.begin(), values.end()};
}

bool IsGradient(const proto::OpDesc& op) { return op.forward_op() != 0 || op.has_forward(); }

proto::Attr BoolAttr(std::string name, bool value) {
  proto::Attr attr = Named(std::move(name));
  attr.set_b(value);
  return attr;
}

proto::Attr IntAttr(std::string name, int64_t value) {
  proto::Attr attr = Named(std::move(name));
  attr.set_i(value);
  return attr;
}

proto::Attr FloatAttr(std::string name, double value) {
  proto::Attr attr = Named(std::move(name));
  attr.set_f(value);
  return attr;
}

proto::Attr StringAttr(std::string name, std::string value) {
  proto::Attr attr = Named(std::move(name));
  attr.set_s(std::move(value));
  return attr;
}

proto::Attr IntsAttr(std::string name, const std::vector<int64_t>& values) {
  proto::Attr attr = Named(std::move(name));
  attr.mutable_ints()->mutable_values()->Assign(values.begin(), values.end());
  return attr;
}

proto::Attr FloatsAttr(std::string name, const std::vector<double>& values) {
  proto::Attr attr = Named(std::move(name));
  attr.mutable_floats()->mutable_values()->Assign(values.begin(), values.end());
  return attr;
}

proto::Attr StringsAttr(std::string name, const std::vector<std::string>& values) {
  proto::Attr attr = Named(std::move(name));
  attr.mutable_strings()->mutable_values()->Assign(values.begin(), values.end());
  return attr;
}

proto::Attr BlockAttr(std::string name, int value) {
  proto::Attr attr = Named(std::move(name));
  attr.set_block(value);
  return attr;
}

proto::Attr BlocksAttr(std::string name, const std::vector<int>& values) {
  proto::Attr attr = Named(std::move(name));
  attr.mutable_blocks()->mutable_values()->Assign(values.begin(), values.end());
  return attr;
}

proto::Attr DTypeAttr(std::string name, DType value) {
  proto::Attr attr = Named(std::move(name));
  attr.set_dtype(static_cast<proto::DataType>(value));
  return attr;
}

}  // namespace opstep
