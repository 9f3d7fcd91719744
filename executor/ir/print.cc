// The listing of a program.
#include "ir/print.h"

#include <cmath>
#include <cstdio>

#include "ir/op_view.h"

namespace opstep {
namespace {

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

template <typename Values, typename Format>
std::string List(const Values& values, Format format) {
  // Long lists would hide the rest of the line.
  constexpr int kShown = 8;
  std::string text = "[";
  for (int i = 0; i < values.size(); ++i) {
    if (i > 0) text += ", ";
    if (i == kShown) return text + "…]";
    text += format(values[i]);
  }
  return text + "]";
}

std::string AttrText(const proto::Attr& attr) {
  switch (attr.value_case()) {
    case proto::Attr::kB:
      return attr.b() ? "true" : "false";
    case proto::Attr::kI:
      return std::to_string(attr.i());
    case proto::Attr::kF:
      return Number(attr.f());
    case proto::Attr::kS:
      return "\"" + attr.s() + "\"";
    case proto::Attr::kInts:
      return List(attr.ints().values(), [](int64_t v) { return std::to_string(v); });
    case proto::Attr::kFloats:
      return List(attr.floats().values(), Number);
    case proto::Attr::kStrings:
      return List(attr.strings().values(), [](const std::string& v) { return "\"" + v + "\""; });
    case proto::Attr::kDtype:
      return std::string(NameOf(static_cast<DType>(attr.dtype())));
    case proto::Attr::kBlock:
      return "block " + std::to_string(attr.block());
    case proto::Attr::kBlocks:
      return "blocks " + List(attr.blocks().values(), [](int64_t v) { return std::to_string(v); });
    case proto::Attr::kTensor: {
      const proto::TensorLiteral& t = attr.tensor();
      return std::string(NameOf(static_cast<DType>(t.dtype()))) +
             List(t.dims(), [](int64_t v) { return std::to_string(v); });
    }
    case proto::Attr::VALUE_NOT_SET:
      return "?";
  }
  return "?";
}

// " in sequences" for a ragged value.
std::string SequencesText(int levels) {
  std::string text;
  for (int i = 0; i < levels; ++i) text += i == 0 ? " in sequences" : " of sequences";
  return text;
}

class Printer {
 public:
  explicit Printer(const Program& program) : program_(program) {}

  Listing Run() {
    Line("program " + program_.name(), 0);
    Block(0, 0);
    return std::move(listing_);
  }

 private:
  void Line(std::string text, uint32_t op) {
    listing_.lines.push_back(std::move(text));
    listing_.op_at.push_back(op);
    if (op != 0) listing_.line_of[op] = static_cast<uint32_t>(listing_.lines.size());
  }

  std::string Outputs(int block, const proto::OpDesc& op) const {
    std::string text;
    for (const proto::Slot& slot : op.outputs()) {
      for (const std::string& name : slot.vars()) {
        if (name.empty()) continue;
        if (!text.empty()) text += ", ";
        text += name;
        if (const proto::VarDesc* var = Find(block, op, name)) {
          text += " " + TypeText(*var);
        }
      }
    }
    return text.empty() ? text : text + " = ";
  }

  // An op may also write variables of the blocks that it runs.
  const proto::VarDesc* Find(int block, const proto::OpDesc& op, const std::string& name) const {
    if (const proto::VarDesc* var = program_.FindVar(block, name)) return var;
    for (const int inner : OpView(op).Blocks()) {
      if (const proto::VarDesc* var = program_.FindVarHere(inner, name)) return var;
    }
    return nullptr;
  }

  static std::string Arguments(const proto::OpDesc& op) {
    std::string text;
    const auto add = [&text](const std::string& name, const std::string& value) {
      if (!text.empty()) text += ", ";
      text += name + "=" + value;
    };
    for (const proto::Slot& slot : op.inputs()) {
      const auto shown = [](const std::string& name) { return name.empty() ? "none" : name; };
      add(slot.name(), slot.vars_size() == 1 ? shown(slot.vars(0)) : List(slot.vars(), shown));
    }
    for (const proto::Attr& attr : op.attrs()) add(attr.name(), AttrText(attr));
    return text;
  }

  void Block(int block, int depth) {
    for (const proto::OpDesc& op : program_.block(block).ops()) {
      const std::string id = "#" + std::to_string(op.id());
      std::string text = id + std::string(id.size() < 5 ? 5 - id.size() : 1, ' ');
      text += std::string(static_cast<size_t>(depth) * 2, ' ');
      text += Outputs(block, op) + op.type() + "(" + Arguments(op) + ")  # " + op.name();
      if (const std::string where = program_.Where(op); !where.empty()) text += ", " + where;
      if (op.forward_op() != 0) text += ", gradient of #" + std::to_string(op.forward_op());
      if (op.has_forward()) text += ", gradient of " + op.forward().name();
      Line(std::move(text), op.id());
      const std::vector<int> blocks = OpView(op).Blocks();
      for (const int inner : blocks) {
        if (blocks.size() > 1) Line(std::string(5 + 2 * depth, ' ') + Cat("block ", inner, ":"), 0);
        Block(inner, depth + 1);
      }
    }
  }

  const Program& program_;
  Listing listing_;
};

}  // namespace

std::string Listing::ToString() const {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

Listing Print(const Program& program) { return Printer(program).Run(); }

std::string TypeText(const proto::VarDesc& var) {
  if (var.kind() != proto::READER) return TypeOf(var).ToString() + SequencesText(var.lod_size());
  std::string text = "reader";
  for (const proto::FieldDesc& field : var.fields()) {
    const Dims dims(std::span(field.dims().data(), static_cast<size_t>(field.dims_size())));
    const VarType type{static_cast<DType>(field.dtype()), dims};
    text += Cat(&field == &var.fields(0) ? " of " : ", ", field.name(), " ", type.ToString(),
                SequencesText(field.lod_level()));
  }
  return text;
}

}  // namespace opstep
