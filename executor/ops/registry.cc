// The registry of ops, and the functions that fill in an op's definition.
#include <algorithm>
#include <unordered_map>

#include "ops/op.h"

namespace opstep {
namespace {

struct NameHash {
  using is_transparent = void;
  size_t operator()(std::string_view name) const { return std::hash<std::string_view>{}(name); }
};

// Called several times for every op of a program.
auto& Registry() {
  static std::unordered_map<std::string, OpDef, NameHash, std::equal_to<>> registry;
  return registry;
}

// Slots and attributes are arguments of the op's Python function and variables of its oracle.
bool IsPythonKeyword(std::string_view name) {
  // One string: some of the words are ops, which only their own files may quote.
  constexpr std::string_view kKeywords =
      " False None True and as assert async await break class continue def del elif else except "
      "finally for from global if import in is lambda nonlocal not or pass raise return try while "
      "with yield ";
  return kKeywords.find(Cat(' ', name, ' ')) != std::string_view::npos;
}

void CheckName(const OpSchema& schema, std::string_view what, std::string_view name) {
  OPSTEP_CHECK(!IsPythonKeyword(name), "op ", schema.type, " has ", what, " '", name,
               "', which is a Python keyword: choose another name");
}

}  // namespace

Op& Op::Doc(std::string doc) {
  def_.schema.doc = std::move(doc);
  return *this;
}

Op& Op::In(std::string name, std::string doc, DTypeSet dtypes) {
  def_.schema.inputs.push_back({.name = std::move(name),
                                .doc = std::move(doc),
                                .dtypes = dtypes,
                                .inplace_of = {},
                                .of_block = {}});
  last_is_output_ = false;
  return *this;
}

Op& Op::Out(std::string name, std::string doc, DTypeSet dtypes) {
  def_.schema.outputs.push_back({.name = std::move(name),
                                 .doc = std::move(doc),
                                 .dtypes = dtypes,
                                 .inplace_of = {},
                                 .of_block = {}});
  last_is_output_ = true;
  return *this;
}

SlotSchema& Op::Last() {
  return last_is_output_ ? def_.schema.outputs.back() : def_.schema.inputs.back();
}

Op& Op::Optional() {
  Last().optional = true;
  return *this;
}

Op& Op::Variadic() {
  Last().variadic = true;
  return *this;
}

Op& Op::ShapeOnly() {
  Last().shape_only = true;
  return *this;
}

Op& Op::InplaceOf(std::string input) {
  Last().inplace_of = std::move(input);
  return *this;
}

Op& Op::Unchanged() {
  Last().unchanged = true;
  return *this;
}

Op& Op::OfBlock(std::string attr) {
  Last().of_block = std::move(attr);
  return *this;
}

Op& Op::Captures() {
  Last().captures = true;
  Last().variadic = true;
  return *this;
}

Op& Op::Stack() {
  Last().kind = proto::STACK;
  return *this;
}

Op& Op::Reader() {
  Last().kind = proto::READER;
  return *this;
}

Op& Op::Attr(const proto::Attr& default_value, std::string doc) {
  def_.schema.attrs.push_back(
      {default_value.name(), TypeOf(default_value).value(), std::move(doc), default_value});
  return *this;
}

Op& Op::Required(std::string name, AttrType type, std::string doc) {
  def_.schema.attrs.push_back({std::move(name), type, std::move(doc), std::nullopt});
  return *this;
}

Op& Op::Shape(void (*fn)(ShapeContext&)) {
  def_.shape = fn;
  return *this;
}

Op& Op::Prepare(Kernel (*fn)(const PrepareContext&)) {
  def_.prepare = fn;
  return *this;
}

Op& Op::Grad(void (*fn)(GradContext&)) {
  def_.grad = fn;
  return *this;
}

Op& Op::Role(OpRole role) {
  def_.role = role;
  return *this;
}

Op& Op::SideEffect() {
  def_.side_effect = true;
  return *this;
}

Op& Op::ResizesBlocks() {
  def_.resizes_blocks = true;
  return *this;
}

Op& Op::ShapesBlocks() {
  def_.shapes_blocks = true;
  return *this;
}

Op& Op::Oracle(std::string python) {
  def_.oracle = std::move(python);
  return *this;
}

Op& Op::Sample(std::string text) {
  def_.samples.push_back(std::move(text));
  return *this;
}

Op& Op::OwnTest() {
  def_.own_test = true;
  return *this;
}

bool Op::Register() {
  OPSTEP_CHECK(def_.shape != nullptr && def_.prepare != nullptr, "op ", def_.schema.type,
               " needs a shape rule and a kernel");
  for (const SlotSchema& slot : def_.schema.inputs) CheckName(def_.schema, "a slot", slot.name);
  for (const SlotSchema& slot : def_.schema.outputs) CheckName(def_.schema, "a slot", slot.name);
  for (const AttrSchema& attr : def_.schema.attrs) {
    CheckName(def_.schema, "an attribute", attr.name);
  }
  const std::string type = def_.schema.type;
  const bool inserted = Registry().emplace(type, std::move(def_)).second;
  OPSTEP_CHECK(inserted, "two ops are named ", type);
  return true;
}

const OpDef* FindOp(std::string_view type) {
  const auto it = Registry().find(type);
  return it == Registry().end() ? nullptr : &it->second;
}

const OpDef& GetOp(std::string_view type) {
  if (const OpDef* def = FindOp(type)) return *def;
  std::vector<std::string> names;
  for (const OpDef* def : AllOps()) names.push_back(def->schema.type);
  const std::string near = Nearest(type, names);
  Fail("there is no op type '", type, "'", near.empty() ? "" : "; did you mean '" + near + "'?");
}

const OpDef& GetOp(OpRole role) {
  for (const auto& [name, def] : Registry()) {
    if (def.role == role) return def;
  }
  Fail("no op is registered for a role that the passes need");
}

const OpSchema* FindSchema(std::string_view type) {
  const OpDef* def = FindOp(type);
  return def == nullptr ? nullptr : &def->schema;
}

std::vector<const OpDef*> AllOps() {
  std::vector<const OpDef*> all;
  for (const auto& [name, def] : Registry()) all.push_back(&def);
  std::sort(all.begin(), all.end(),
            [](const OpDef* a, const OpDef* b) { return a->schema.type < b->schema.type; });
  return all;
}

void GradContext::EmitGrad(std::string type, const Names& inputs, const Names& outputs,
                           const Names& out_grads, const Names& in_grads) {
  std::vector<std::pair<std::string, Names>> ins, outs;
  for (const std::string& slot : inputs) ins.emplace_back(slot, op().Inputs(slot));
  for (const std::string& slot : outputs) ins.emplace_back(slot, op().Outputs(slot));
  for (const std::string& slot : out_grads) {
    Names names;
    const int n = static_cast<int>(op().Outputs(slot).size());
    for (int i = 0; i < n; ++i) names.push_back(OutGrad(slot, i));
    ins.emplace_back("d" + slot, std::move(names));
  }
  for (const std::string& slot : in_grads) {
    Names names;
    const int n = static_cast<int>(op().Inputs(slot).size());
    for (int i = 0; i < n; ++i) names.push_back(InGrad(slot, i));
    outs.emplace_back("d" + slot, std::move(names));
  }
  std::vector<proto::Attr> attrs(op().desc().attrs().begin(), op().desc().attrs().end());
  Emit(std::move(type), std::move(ins), std::move(outs), std::move(attrs));
}

}  // namespace opstep
