// Variants: plans of blocks whose sizes are known only at run time.
#include <unordered_map>

#include "ops/infer.h"
#include "ops/kernel_preparation.h"
#include "ops/op.h"
#include "plan/constants.h"
#include "plan/plan.h"

namespace opstep {

// Infers the types of a block that varies, once its handed values are known, and chooses its
// kernels. The memory of a resized block was planned for the largest number of rows; that of a
// shaped one is planned here.
class Specializer {
 public:
  Specializer(const Plan& plan, int block, const Plan::VariantKey& key,
              const std::function<VarType(uint32_t)>& type_of)
      : plan_(plan),
        root_(block),
        shaped_(plan.blocks[block].shaped == block && !key.given.empty()),
        key_(key),
        around_(key.around != nullptr ? static_cast<const Typing&>(*key.around) : plan),
        type_of_(type_of),
        variant_(std::make_shared<Variant>()) {
    static std::atomic<uint64_t> next{1};
    variant_->id = next++;
    variant_->around = key.around;
  }

  std::shared_ptr<const Variant> Run() {
    if (shaped_) return Shape();
    for (uint32_t slot = 0; slot < plan_.slots.size(); ++slot) {
      const SlotPlan& plan = around_.slots[slot];
      if (plan.block != root_ || !plan.given) continue;
      VarType type = plan.type;
      OPSTEP_CHECK(type.dims.rank() > 0, "'", plan.name, "' has no rows");
      type.dims[0] = key_.rows[0];
      Set(slot, type);
    }
    Block(root_);
    for (const auto& [slot, type] : types_) {
      if (plan_.slots[slot].storage == Storage::kArena) variant_->types.emplace_back(slot, type);
    }
    return variant_;
  }

 private:
  std::shared_ptr<const Variant> Shape() {
    variant_->slots = around_.slots;
    variant_->constants = around_.constants;
    variant_->given = key_.given;
    constants_ = std::make_unique<Constants>(plan_, *variant_);
    std::vector<uint32_t> given;
    const BlockPlan& parent = plan_.blocks[plan_.blocks[root_].parent];
    const Instruction& owner = parent.code[plan_.blocks[root_].parent_index];
    const std::vector<Arg> outputs = OutputArgs(*owner.op, plan_.blocks[root_].parent);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].inner() && outputs[i].block == root_)
        given.push_back(owner.args[owner.n_in + i]);
    }
    OPSTEP_CHECK(given.size() == key_.given.size(), "the block takes ", given.size(),
                 " values but gets ", key_.given.size());
    for (size_t i = 0; i < given.size(); ++i) {
      CheckDeclared(plan_.slots[given[i]], key_.given[i]);
      variant_->slots[given[i]].storage = Storage::kFeed;
      Set(given[i], key_.given[i]);
    }
    Block(root_);
    PlanMemory(plan_, root_, *variant_);
    for (const auto& [slot, type] : types_) {
      if (Inside(plan_.slots[slot].block)) variant_->types.emplace_back(slot, type);
    }
    return variant_;
  }

  static void CheckDeclared(const SlotPlan& slot, const VarType& type) {
    const Dims &declared = slot.type.dims, &dims = type.dims;
    bool fits = type.dtype == slot.type.dtype && dims.rank() == declared.rank();
    for (int i = 0; fits && i < dims.rank(); ++i) fits = declared[i] < 0 || declared[i] == dims[i];
    OPSTEP_CHECK(fits, "'", slot.name, "' is ", slot.type.ToString(), " in the program, but ",
                 type.ToString(), " came");
  }

  bool Inside(int block) const { return plan_.Inside(block, root_); }

  VarType TypeOf(uint32_t slot) const {
    if (const auto it = types_.find(slot); it != types_.end()) return it->second;
    if (plan_.slots[slot].storage == Storage::kStack) {
      const auto saved = around_.saved_types.find({slot, key_.rows});
      return saved != around_.saved_types.end() ? saved->second : around_.slots[slot].type;
    }
    if (slot == 0) return {};
    if (plan_.slots[slot].storage == Storage::kScope) return plan_.slots[slot].type;
    if (!Inside(plan_.slots[slot].block)) return type_of_(slot);
    return shaped_ ? VarType{} : around_.slots[slot].type;
  }

  void Set(uint32_t slot, const VarType& type) {
    const SlotPlan& plan = plan_.slots[slot];
    if (slot == 0 || type.dtype == DType::kNone) return;
    if (plan.storage == Storage::kScope) {
      OPSTEP_CHECK(type == plan.type, "it would change '", plan.name, "' from ",
                   plan.type.ToString(), " to ", type.ToString());
      return;
    }
    if (plan.storage == Storage::kStack && !(shaped_ && Inside(plan.block))) {
      around_.saved_types[{slot, key_.rows}] = type;
    } else if (!Inside(plan.block)) {
      OPSTEP_CHECK(type == type_of_(slot), "it would change '", plan.name, "' from ",
                   type_of_(slot).ToString(), " to ", type.ToString());
    } else if (shaped_) {
      OPSTEP_CHECK(type.dims.known(), "the shape of '", plan.name,
                   "' is not known: ", type.ToString());
      const auto [it, added] = types_.emplace(slot, type);
      OPSTEP_CHECK(added || it->second == type, "it would change '", plan.name, "' from ",
                   it->second.ToString(), " to ", type.ToString());
      variant_->slots[slot].type = type;
    } else {
      OPSTEP_CHECK(type.dims.known() && type.dims.numel() <= around_.slots[slot].type.dims.numel(),
                   "'", plan.name, "' becomes larger with ", key_.rows[0],
                   " rows than with all of them");
    }
    types_[slot] = type;
  }

  void Block(int block) {
    for (const Instruction& instruction : plan_.blocks[block].code) {
      try {
        One(block, instruction);
      } catch (const Error& error) {
        if (placed_) throw;
        placed_ = true;
        throw Error(Cat("with ", Handed(), ": [", instruction.op->type(), "] ", error.what(),
                        plan_.PlaceOf(instruction)));
      }
    }
  }

  // The key of the variant, for an error's sentence.
  std::string Handed() const {
    if (!shaped_) return Cat(key_.rows[0], " rows");
    std::string text;
    for (const VarType& type : key_.given) text += (text.empty() ? "" : ", ") + type.ToString();
    return text;
  }

  void One(int block, const Instruction& instruction) {
    const proto::OpDesc& op = *instruction.op;
    const OpDef& def = GetOp(op.type());
    const std::vector<uint32_t> ins(instruction.args, instruction.args + instruction.n_in);
    const std::vector<uint32_t> outs(instruction.args + instruction.n_in,
                                     instruction.args + instruction.n_in + instruction.n_out);
    const std::vector<Arg> in_args = InputArgs(op, block), out_args = OutputArgs(op, block);
    const std::vector<const Tensor*> values =
        shaped_ ? constants_->Values(ins) : std::vector<const Tensor*>{};
    const auto infer = [&](bool handed) {
      std::vector<VarType> in_types;
      for (size_t i = 0; i < ins.size(); ++i) {
        // Results of its blocks are not known before the blocks.
        in_types.push_back(handed && in_args[i].inner() ? VarType{} : TypeOf(ins[i]));
      }
      const std::vector<VarType> types = InferTypes(op, in_types, values);
      for (size_t i = 0; i < outs.size(); ++i) {
        // Values handed to a shaped block have their types in that block's own variants.
        if (out_args[i].inner() && def.shapes_blocks) continue;
        if (!handed || out_args[i].inner()) Set(outs[i], types[i]);
      }
    };
    const std::vector<int> blocks = OpView(op).Blocks();
    if (!blocks.empty() && !def.shapes_blocks) {
      infer(true);
      for (const int child : blocks) Block(child);
    }
    infer(false);
    std::vector<VarType> in_types, out_types;
    for (const uint32_t slot : ins) in_types.push_back(TypeOf(slot));
    for (const uint32_t slot : outs) out_types.push_back(TypeOf(slot));
    Kernel kernel = PrepareKernel(PrepareContext(OpView(op), in_types, out_types, values));
    if (shaped_) constants_->Fold(block, op, in_args, ins, outs, kernel);
    Instruction& made = variant_->code.emplace_back(instruction);
    made.run = kernel.run;
    made.state = kernel.state.get();
    variant_->index.push_back(*static_cast<const uint32_t*>(instruction.state));
    if (kernel.state != nullptr) variant_->states.push_back(std::move(kernel.state));
  }

  const Plan& plan_;
  const int root_;
  const bool shaped_;
  const Plan::VariantKey& key_;
  const Typing& around_;
  const std::function<VarType(uint32_t)>& type_of_;
  const std::shared_ptr<Variant> variant_;
  std::unique_ptr<Constants> constants_;
  std::unordered_map<uint32_t, VarType> types_;
  // The error already names its place.
  bool placed_ = false;
};

std::shared_ptr<const Variant> Plan::VariantOf(
    int block, const VariantKey& key, const std::function<VarType(uint32_t)>& type_of) const {
  const std::lock_guard lock(variants_mutex_);
  std::vector<int64_t> code{block, key.around != nullptr ? static_cast<int64_t>(key.around->id) : 0,
                            static_cast<int64_t>(key.rows.size())};
  code.insert(code.end(), key.rows.begin(), key.rows.end());
  for (const VarType& type : key.given) {
    code.push_back(static_cast<int64_t>(type.dtype));
    code.push_back(type.dims.rank());
    code.insert(code.end(), type.dims.begin(), type.dims.end());
  }
  // Frames keep the variants that they use.
  constexpr size_t kKept = 256;
  if (variants_.size() >= kKept && variants_.count(code) == 0) {
    variants_.clear();
  }
  if (const auto it = variants_.find(code); it != variants_.end()) return it->second;
  return variants_[code] = Specializer(*this, block, key, type_of).Run();
}

}  // namespace opstep
