#include <unordered_map>

#include "ops/infer.h"
#include "ops/op.h"
#include "ops/widen.h"
#include "plan/plan.h"

namespace opstep {

// Infers the types of a resized block for one number of rows and chooses its kernels. The memory
// was planned for the largest number of rows.
class Specializer {
 public:
  Specializer(const Plan& plan, const std::vector<int64_t>& rows,
              const std::function<VarType(uint32_t)>& type_of)
      : plan_(plan), rows_(rows), type_of_(type_of), variant_(std::make_shared<Variant>()) {}

  std::shared_ptr<const Variant> Run(int block) {
    root_ = block;
    for (uint32_t slot = 0; slot < plan_.slots.size(); ++slot) {
      const SlotPlan& plan = plan_.slots[slot];
      if (plan.block != block || !plan.given) continue;
      VarType type = plan.type;
      OPSTEP_CHECK(type.dims.rank() > 0, "'", plan.name, "' has no rows");
      type.dims[0] = rows_[0];
      Set(slot, type);
    }
    Block(block);
    for (const auto& [slot, type] : types_) {
      if (plan_.slots[slot].storage == Storage::kArena) variant_->types.emplace_back(slot, type);
    }
    return variant_;
  }

 private:
  bool Inside(int block) const {
    while (block >= 0 && block != root_) block = plan_.blocks[block].parent;
    return block == root_;
  }

  VarType TypeOf(uint32_t slot) const {
    if (const auto it = types_.find(slot); it != types_.end()) return it->second;
    if (plan_.slots[slot].storage == Storage::kStack) {
      const auto saved = plan_.saved_types_.find({slot, rows_});
      if (saved != plan_.saved_types_.end()) return saved->second;
      return plan_.slots[slot].type;
    }
    return slot == 0 || Inside(plan_.slots[slot].block) ? plan_.slots[slot].type : type_of_(slot);
  }

  void Set(uint32_t slot, const VarType& type) {
    const SlotPlan& plan = plan_.slots[slot];
    if (slot == 0 || type.dtype == DType::kNone) return;
    if (plan.storage == Storage::kStack) {
      plan_.saved_types_[{slot, rows_}] = type;
    } else if (Inside(plan.block)) {
      OPSTEP_CHECK(type.dims.known() && type.dims.numel() <= plan.type.dims.numel(), "'", plan.name,
                   "' becomes larger with ", rows_[0], " rows than with all of them");
    } else {
      OPSTEP_CHECK(type == type_of_(slot), "it would change '", plan.name, "' from ",
                   type_of_(slot).ToString(), " to ", type.ToString());
    }
    types_[slot] = type;
  }

  void Block(int block) {
    for (const Instruction& instruction : plan_.blocks[block].code) {
      try {
        One(block, instruction);
      } catch (const Error& error) {
        throw Error(Cat("with ", rows_[0], " rows: [", instruction.op->type(), "] ", error.what(),
                        plan_.PlaceOf(instruction)));
      }
    }
  }

  void One(int block, const Instruction& instruction) {
    const proto::OpDesc& op = *instruction.op;
    const uint32_t* args = instruction.args;
    const std::vector<Arg> in_args = InputArgs(op, block), out_args = OutputArgs(op, block);
    const auto infer = [&](bool handed) {
      std::vector<VarType> in_types;
      for (int i = 0; i < instruction.n_in; ++i) {
        // Results of its blocks are not known before the blocks.
        in_types.push_back(handed && in_args[i].inner() ? VarType{} : TypeOf(args[i]));
      }
      const std::vector<VarType> types = InferTypes(op, in_types);
      for (int i = 0; i < instruction.n_out; ++i) {
        if (!handed || out_args[i].inner()) Set(args[instruction.n_in + i], types[i]);
      }
    };
    const std::vector<int> blocks = OpView(op).Blocks();
    if (!blocks.empty()) infer(true);
    for (const int child : blocks) Block(child);
    infer(false);
    std::vector<VarType> in_types, out_types;
    for (int i = 0; i < instruction.n_in; ++i) in_types.push_back(TypeOf(args[i]));
    for (int i = 0; i < instruction.n_out; ++i)
      out_types.push_back(TypeOf(args[instruction.n_in + i]));
    Kernel kernel = PrepareKernel(PrepareContext(OpView(op), in_types, out_types));
    Instruction& made = variant_->code.emplace_back(instruction);
    made.run = kernel.run;
    made.state = kernel.state.get();
    variant_->index.push_back(*static_cast<const uint32_t*>(instruction.state));
    if (kernel.state != nullptr) variant_->states.push_back(std::move(kernel.state));
  }

  const Plan& plan_;
  const std::vector<int64_t>& rows_;
  const std::function<VarType(uint32_t)>& type_of_;
  const std::shared_ptr<Variant> variant_;
  int root_ = 0;
  std::unordered_map<uint32_t, VarType> types_;
};

std::shared_ptr<const Variant> Plan::VariantOf(
    int block, const std::vector<int64_t>& rows,
    const std::function<VarType(uint32_t)>& type_of) const {
  const std::lock_guard lock(variants_mutex_);
  // Frames keep those that they use.
  constexpr size_t kKept = 256;
  if (variants_.size() >= kKept && variants_.count({block, rows}) == 0) variants_.clear();
  std::shared_ptr<const Variant>& variant = variants_[{block, rows}];
  if (variant == nullptr) variant = Specializer(*this, rows, type_of).Run(block);
  return variant;
}

}  // namespace opstep
