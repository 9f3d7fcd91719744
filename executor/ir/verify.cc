// Verify: every rule of a legal program.
#include "ir/verify.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "ir/op_view.h"

namespace opstep {
namespace {

constexpr int kMaxDepth = 64;
constexpr int kMaxLevels = 8;

// Every rule has a name; the error says which one was broken and where.
class Verifier {
 public:
  Verifier(const proto::ProgramDesc& program, SchemaLookup schemas)
      : program_(program), schemas_(schemas) {}

  void Run() {
    Require(program_.blocks_size() > 0, "has-a-block", "the program has no block");
    Require(program_.blocks(0).parent() == -1, "block-tree", "block 0 must not have a parent");
    for (const proto::CodeFrame& frame : program_.frames()) {
      Require(HasString(frame.file()) && HasString(frame.function()), "frame-index",
              "a source frame points outside the table of strings");
      for (const auto* names : {&frame.locals(), &frame.globals()}) {
        for (const uint32_t name : *names)
          Require(HasString(name), "name-index",
                  "a Python name points outside the table of strings");
      }
    }
    for (const proto::NameChange& change : program_.names()) {
      for (const proto::Naming& named : change.names()) {
        Require(HasString(named.name()) && (!named.variable() || HasString(named.variable() - 1)),
                "name-index", "a Python name points outside the table of strings");
      }
    }
    vars_.resize(program_.blocks_size());
    depth_.resize(program_.blocks_size());
    for (block_ = 0; block_ < program_.blocks_size(); ++block_) BlockVars(program_.blocks(block_));
    for (block_ = 0; block_ < program_.blocks_size(); ++block_) {
      for (const proto::VarDesc& var : program_.blocks(block_).vars()) Sequences(var);
      for (const proto::OpDesc& op : program_.blocks(block_).ops()) {
        op_ = &op;
        OneOp(op);
        op_ = nullptr;
      }
    }
    for (int b = 1; b < program_.blocks_size(); ++b) {
      block_ = b;
      Require(owners_.count(b) <= 1, "block-owner", "the block is run by more than one op");
    }
  }

 private:
  template <typename... Args>
  void Require(bool condition, std::string_view rule, Args&&... what) const {
    if (condition) return;
    std::string where = Cat("block ", block_);
    if (op_ != nullptr) where += Cat(", op #", op_->id(), " ", op_->name());
    Fail("program '", program_.name(), "' is not legal: ", what..., " (", where, ", rule ", rule,
         ")");
  }

  bool HasString(uint32_t i) const { return i < static_cast<uint32_t>(program_.strings_size()); }

  void BlockVars(const proto::BlockDesc& block) {
    if (block_ > 0) {
      // A parent comes before its children, so there is no cycle.
      Require(block.parent() >= 0 && block.parent() < block_, "block-tree", "its parent ",
              block.parent(), " is not an earlier block");
      depth_[block_] = depth_[block.parent()] + 1;
      Require(depth_[block_] <= kMaxDepth, "block-depth", "blocks are nested more than ", kMaxDepth,
              " deep");
    }
    for (const proto::VarDesc& var : block.vars()) {
      Require(!var.name().empty(), "var-name", "a variable has no name");
      Require(std::none_of(var.name().begin(), var.name().end(),
                           [](unsigned char c) { return c < ' '; }),
              "var-name", "a variable's name holds a control character");
      Require(vars_[block_].emplace(var.name(), &var).second, "var-name", "variable '", var.name(),
              "' occurs twice");
      Require(proto::VarKind_IsValid(var.kind()) && var.kind() != proto::VAR_KIND_UNSPECIFIED,
              "var-kind", "variable '", var.name(), "' is of no known kind");
      Require(proto::DataType_IsValid(var.dtype()) && var.dtype() != proto::DATA_TYPE_UNSPECIFIED,
              "var-dtype", "variable '", var.name(), "' has no known dtype");
      Require(var.dims_size() <= Dims::kMaxRank, "var-dims", "variable '", var.name(), "' has ",
              var.dims_size(), " dimensions, more than ", Dims::kMaxRank);
      for (const int64_t size : var.dims()) {
        Require(size >= -1, "var-dims", "variable '", var.name(), "' has a size of ", size);
      }
      Require(var.kind() == proto::TENSOR || !var.persistable(), "var-kind", "variable '",
              var.name(), "' is not a tensor and cannot outlast a run");
      std::set<std::string> attrs;
      for (const proto::Attr& attr : var.attrs()) {
        Require(var.parameter() && attr.value_case() == proto::Attr::kF &&
                    attrs.insert(attr.name()).second,
                "var-attr", "attribute '", attr.name(), "' of variable '", var.name(),
                "' is not a number of a parameter, or is given twice");
      }
      Require(!var.parameter() || (block_ == 0 && var.persistable()), "parameter-global",
              "parameter '", var.name(), "' must be a persistable variable of block 0");
    }
  }

  // The sequences of a ragged variable.
  void Sequences(const proto::VarDesc& var) const {
    Require(var.lod_size() <= kMaxLevels, "var-lod", "variable '", var.name(), "' has ",
            var.lod_size(), " levels of sequences, more than ", kMaxLevels);
    Require(var.lod_size() == 0 || (var.kind() == proto::TENSOR && var.dims_size() > 0), "var-lod",
            "variable '", var.name(), "' has sequences but no rows");
    for (const proto::LodLevel& level : var.lod()) {
      for (const std::string& name : {level.offsets(), level.steps()}) {
        const proto::VarDesc* found = Find(block_, name);
        Require(found != nullptr && found->kind() == proto::TENSOR &&
                    found->dtype() == proto::INT64 && found->dims_size() == 1,
                "var-lod", "the sequences of variable '", var.name(), "' are said to be in '", name,
                "', which is not int64[?]");
      }
    }
  }

  // As seen from a block; nullptr when it does not exist.
  const proto::VarDesc* Find(int block, const std::string& name) const {
    for (int b = block; b >= 0; b = program_.blocks(b).parent()) {
      const auto it = vars_[b].find(name);
      if (it != vars_[b].end()) return it->second;
    }
    return nullptr;
  }

  void OneOp(const proto::OpDesc& op) {
    Require(op.id() > 0 && op.id() < program_.next_op_id() && ids_.insert(op.id()).second, "op-id",
            "its id is 0, used twice or beyond the program's counter");
    Require(!op.name().empty() && names_.insert(op.name()).second, "op-name",
            "its name is empty or used twice");
    for (const uint32_t frame : op.stack()) {
      Require(frame < static_cast<uint32_t>(program_.frames_size()), "frame-index",
              "its stack points outside the table of frames");
    }
    for (const uint32_t target : op.targets())
      Require(HasString(target), "name-index", "a Python name points outside the table of strings");
    const auto fits = [&op](int numbers) { return numbers == 0 || numbers == op.stack_size(); };
    Require(fits(op.calls_size()) && fits(op.visits_size()), "call-numbers",
            "it has calls or visits for another number of frames than its stack has");
    const OpSchema* schema = schemas_(op.type());
    Require(schema != nullptr, "op-type", "there is no op type '", op.type(), "'");
    Attrs(op, *schema);
    Slots(op, op.inputs(), schema->inputs, "input");
    Slots(op, op.outputs(), schema->outputs, "output");
    Aliases(op, *schema);
  }

  void Slots(const proto::OpDesc& op, const google::protobuf::RepeatedPtrField<proto::Slot>& slots,
             const std::vector<SlotSchema>& schemas, std::string_view side) const {
    std::set<std::string> seen;
    for (const proto::Slot& slot : slots) {
      const auto schema = std::find_if(schemas.begin(), schemas.end(),
                                       [&](const SlotSchema& s) { return s.name == slot.name(); });
      Require(schema != schemas.end(), "slot-name", "it has no ", side, " '", slot.name(), "'");
      Require(seen.insert(slot.name()).second, "slot-name", side, " '", slot.name(),
              "' occurs twice");
      Require(schema->variadic || slot.vars_size() == 1, "slot-count", side, " '", slot.name(),
              "' takes one variable, not ", slot.vars_size());
      const int home = schema->of_block.empty() ? block_ : OpView(op).Block(schema->of_block);
      for (const std::string& name : slot.vars()) {
        Require(schema->optional || !name.empty(), "slot-count", side, " '", slot.name(),
                "' needs a variable");
        if (name.empty()) continue;
        const proto::VarDesc* var = Find(home, name);
        Require(var != nullptr, "var-exists", "variable '", name, "' does not exist");
        Require(schema->captures || schema->kind == var->kind(), "var-kind", side, " '",
                slot.name(), "' cannot be variable '", name, "' of its kind");
        Require(schema->of_block.empty() || side == "input" || vars_[home].count(name) != 0,
                "block-input", "it hands '", name, "' to block ", home,
                ", which has no such variable");
      }
    }
    for (const SlotSchema& schema : schemas) {
      Require(schema.optional || schema.variadic || seen.count(schema.name) != 0, "slot-count",
              side, " '", schema.name, "' is missing");
    }
  }

  void Attrs(const proto::OpDesc& op, const OpSchema& schema) {
    std::set<std::string> seen;
    for (const proto::Attr& attr : op.attrs()) {
      const AttrSchema* known = schema.FindAttr(attr.name());
      Require(known != nullptr && seen.insert(attr.name()).second, "attr-name", "attribute '",
              attr.name(), "' is unknown or given twice");
      Require(TypeOf(attr) == known->type, "attr-type", "attribute '", attr.name(),
              "' must be of type ", NameOf(known->type));
      if (attr.value_case() == proto::Attr::kBlock) Owned(op, attr.name(), attr.block());
      for (const int64_t block : attr.blocks().values()) Owned(op, attr.name(), block);
      if (attr.value_case() == proto::Attr::kDtype) {
        // An attribute without a default dtype takes the dtype of an input.
        const bool given =
            attr.dtype() != proto::DATA_TYPE_UNSPECIFIED ||
            (known->default_value && known->default_value->dtype() == proto::DATA_TYPE_UNSPECIFIED);
        Require(proto::DataType_IsValid(attr.dtype()) && given, "attr-type", "attribute '",
                attr.name(), "' has no known dtype");
      }
      if (attr.value_case() == proto::Attr::kTensor) Literal(attr);
    }
    for (const AttrSchema& known : schema.attrs) {
      Require(seen.count(known.name) != 0, "attr-name", "attribute '", known.name, "' is missing");
    }
  }

  void Owned(const proto::OpDesc& op, const std::string& attr, int64_t block) {
    Require(block > 0 && block < program_.blocks_size() &&
                program_.blocks(static_cast<int>(block)).parent() == block_,
            "block-index", "attribute '", attr, "' names block ", block,
            ", which is not a child of this block");
    owners_.insert(static_cast<int>(block));
    BlockWrites(op, static_cast<int>(block));
  }

  // A reader of the op alone must see all that it changes.
  void BlockWrites(const proto::OpDesc& op, int body) const {
    std::set<std::string> told;
    for (const proto::Slot& slot : op.outputs())
      told.insert(slot.vars().begin(), slot.vars().end());
    for (const proto::OpDesc& inner : program_.blocks(body).ops()) {
      const OpSchema* schema = schemas_(inner.type());
      for (const proto::Slot& slot : inner.outputs()) {
        const SlotSchema* known = schema == nullptr ? nullptr : schema->FindOutput(slot.name());
        if (known != nullptr && !known->of_block.empty()) continue;
        for (const std::string& name : slot.vars()) {
          Require(name.empty() || vars_[body].count(name) != 0 || told.count(name) != 0,
                  "block-writes", "block ", body, " writes '", name,
                  "', which is not among its outputs");
        }
      }
    }
  }

  void Literal(const proto::Attr& attr) const {
    const proto::TensorLiteral& t = attr.tensor();
    bool good = proto::DataType_IsValid(t.dtype()) && t.dtype() != proto::DATA_TYPE_UNSPECIFIED &&
                t.dims_size() <= Dims::kMaxRank;
    int64_t elements = 1;
    for (const int64_t size : t.dims()) {
      good = good && size >= 0 && !__builtin_mul_overflow(elements, size, &elements);
    }
    int64_t bytes = 0;
    good = good &&
           !__builtin_mul_overflow(elements, SizeOf(static_cast<DType>(t.dtype())), &bytes) &&
           bytes == static_cast<int64_t>(t.data().size());
    // A byte other than 0 and 1 is not a bool.
    const bool bools = t.dtype() == proto::BOOL;
    good = good && (!bools || std::all_of(t.data().begin(), t.data().end(),
                                          [](char byte) { return byte == 0 || byte == 1; }));
    Require(good, "attr-tensor", "the bytes of attribute '", attr.name(), "' do not fit its shape");
  }

  void Aliases(const proto::OpDesc& op, const OpSchema& schema) const {
    const std::optional<AliasProblem> problem = FindAliasProblem(op, schema);
    if (problem) Require(false, problem->rule, problem->what);
  }

  const proto::ProgramDesc& program_;
  const SchemaLookup schemas_;
  int block_ = 0;
  const proto::OpDesc* op_ = nullptr;
  std::vector<std::unordered_map<std::string, const proto::VarDesc*>> vars_;
  std::vector<int> depth_;
  std::unordered_set<uint32_t> ids_;
  std::unordered_set<std::string> names_;
  std::multiset<int> owners_;
};

}  // namespace

std::optional<AliasProblem> FindAliasProblem(const proto::OpDesc& op, const OpSchema& schema) {
  std::set<std::string_view> written;
  for (const proto::Slot& out : op.outputs()) {
    const SlotSchema* out_schema = schema.FindOutput(out.name());
    for (const std::string& name : out.vars()) {
      if (name.empty()) continue;
      if (!written.insert(name).second)
        return AliasProblem{"one-writer", Cat("it writes variable '", name, "' twice")};
      if (out_schema->variadic) continue;
      for (const proto::Slot& in : op.inputs()) {
        const bool same = std::find(in.vars().begin(), in.vars().end(), name) != in.vars().end();
        if (same && out_schema->inplace_of != in.name())
          return AliasProblem{"in-place",
                              Cat("it reads and writes '", name, "' but cannot work in place")};
      }
    }
  }
  return std::nullopt;
}

void Verify(const proto::ProgramDesc& program, SchemaLookup schemas) {
  Verifier(program, schemas).Run();
}

}  // namespace opstep
