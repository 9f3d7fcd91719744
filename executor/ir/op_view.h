// OpView: typed reading of an op, and makers of attribute values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"
#include "program.pb.h"

namespace opstep {

// Typed reading of an OpDesc. Attributes that are read must exist: defaults are filled in when an
// op is made, and `verify` checks.
class OpView {
 public:
  explicit OpView(const proto::OpDesc& desc) : desc_(&desc) {}

  const proto::OpDesc& desc() const { return *desc_; }
  const std::string& type() const { return desc_->type(); }

  // The variables in a slot; empty when the slot is not used.
  std::vector<std::string> Inputs(std::string_view slot) const;
  std::vector<std::string> Outputs(std::string_view slot) const;
  // The only variable in a slot, or "".
  std::string Input(std::string_view slot) const;
  std::string Output(std::string_view slot) const;

  const proto::Attr* FindAttr(std::string_view name) const;
  bool Bool(std::string_view name) const;
  int64_t Int(std::string_view name) const;
  double Float(std::string_view name) const;
  const std::string& String(std::string_view name) const;
  std::vector<int64_t> Ints(std::string_view name) const;
  std::vector<double> Floats(std::string_view name) const;
  std::vector<std::string> Strings(std::string_view name) const;
  opstep::DType DType(std::string_view name) const;
  int Block(std::string_view name) const;
  // All blocks that the op runs, in the order of its attributes.
  std::vector<int> Blocks() const;
  const proto::TensorLiteral& Literal(std::string_view name) const;

 private:
  const proto::Attr& Need(std::string_view name) const;
  const proto::OpDesc* desc_;
};

// Does it compute the gradient of another op, of this program or of another one?
bool IsGradient(const proto::OpDesc& op);

// Makers of attribute values.
proto::Attr BoolAttr(std::string name, bool value);
proto::Attr IntAttr(std::string name, int64_t value);
proto::Attr FloatAttr(std::string name, double value);
proto::Attr StringAttr(std::string name, std::string value);
proto::Attr IntsAttr(std::string name, const std::vector<int64_t>& values);
proto::Attr FloatsAttr(std::string name, const std::vector<double>& values);
proto::Attr StringsAttr(std::string name, const std::vector<std::string>& values);
proto::Attr DTypeAttr(std::string name, DType value);
proto::Attr BlockAttr(std::string name, int value);
proto::Attr BlocksAttr(std::string name, const std::vector<int>& values);

}  // namespace opstep
