// Compile: slots, kernels, types and in-place outputs of a plan.
#include <algorithm>
#include <chrono>
#include <unordered_set>

#include "ir/verify.h"
#include "ops/infer.h"
#include "ops/kernel_preparation.h"
#include "ops/op.h"
#include "plan/constants.h"
#include "plan/plan.h"

namespace opstep {
namespace {

uint64_t NextPlanId() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string near = Nearest(name, candidates);
  return near.empty() ? "" : "; did you mean '" + near + "'?";
}

// The kernel of an instruction whose block is resized at run time: the one of the variant that the
// frame uses now.
Kernel ThroughVariant(uint32_t index) {
  const auto run = [](KernelContext& ctx) {
    const KernelCall* call = ctx.call;
    ctx.call = &ctx.ResizedCall(ctx.state<uint32_t>());
    ctx.call->run(ctx);
    ctx.call = call;
  };
  return WithState<uint32_t>(run, index);
}

class Compiler {
 public:
  Compiler(std::shared_ptr<const Program> program, const std::vector<FeedType>& feeds,
           const std::vector<std::string>& fetches)
      : program_(std::move(program)),
        feeds_(feeds),
        fetches_(fetches),
        plan_(std::make_shared<Plan>()),
        constants_(*plan_, *plan_) {}

  std::shared_ptr<Plan> Run() {
    Verify(program_->desc(), FindSchema);
    plan_->id = NextPlanId();
    plan_->program = program_;
    plan_->program_id = program_->id();
    plan_->program_name = program_->name();
    plan_->program_version = program_->version();
    plan_->desc = program_->desc();
    plan_->writers = CountWriters(plan_->desc);
    plan_->listing = Print(*program_);
    plan_->blocks.resize(program_->block_count());
    plan_->slot_of.resize(program_->block_count());
    plan_->slots.push_back({.name = "", .type = {}, .storage = Storage::kNothing});
    for (int b = 0; b < program_->block_count(); ++b)
      plan_->blocks[b].parent = program_->block(b).parent();
    BindFeeds();
    Block(0);
    BindFetches();
    LinkArgs();
    PlanMemory(*plan_, 0, *plan_);
    return plan_;
  }

 private:
  // ---- feeds and fetches

  std::vector<std::string> FeedNames() const {
    std::vector<std::string> names;
    for (const proto::OpDesc& op : plan_->desc.blocks(0).ops()) {
      if (GetOp(op.type()).role == OpRole::kFeed) names.push_back(FlatOutputs(op)[0]);
    }
    return names;
  }

  void BindFeeds() {
    std::unordered_set<std::string> computed;
    for (const proto::OpDesc& op : plan_->desc.blocks(0).ops()) {
      if (GetOp(op.type()).role == OpRole::kFeed) continue;
      for (const std::string& name : FlatOutputs(op)) computed.insert(name);
    }
    for (const FeedType& feed : feeds_) {
      const proto::VarDesc* var = program_->FindVarHere(0, feed.name);
      OPSTEP_CHECK(var != nullptr, "cannot feed '", feed.name, "': program '", program_->name(),
                   "' has no such variable", DidYouMean(feed.name, FeedNames()));
      OPSTEP_CHECK(computed.count(feed.name) == 0 && !var->persistable(), "cannot feed '",
                   feed.name, "': the program computes it itself; only data variables are fed");
      CheckFeedType(*var, feed.type);
      const uint32_t slot = AddSlot(0, *var);
      OPSTEP_CHECK(plan_->slots[slot].storage != Storage::kFeed, "'", feed.name, "' is fed twice");
      plan_->slots[slot].storage = Storage::kFeed;
      plan_->slots[slot].type = feed.type;
      plan_->feed_slots.push_back(slot);
      fed_.insert(slot);
    }
  }

  // Where the variable was declared: " (declared in train.py:12)".
  std::string Declared(const std::string& name) const {
    for (const proto::OpDesc& op : plan_->desc.blocks(0).ops()) {
      if (GetOp(op.type()).role != OpRole::kFeed || FlatOutputs(op)[0] != name) continue;
      const std::string where = program_->Where(op);
      return where.empty() ? "" : " (declared in " + where + ")";
    }
    return "";
  }

  void CheckFeedType(const proto::VarDesc& var, const VarType& given) const {
    const VarType want = TypeOf(var);
    OPSTEP_CHECK(given.dtype == want.dtype, "cannot feed '", var.name(), "': it is ",
                 NameOf(want.dtype), " but the value is ", NameOf(given.dtype), "; use .astype('",
                 NameOf(want.dtype), "')", Declared(var.name()));
    bool fits = given.dims.rank() == want.dims.rank();
    for (int i = 0; fits && i < given.dims.rank(); ++i) {
      fits = want.dims[i] < 0 || want.dims[i] == given.dims[i];
    }
    OPSTEP_CHECK(fits, "cannot feed '", var.name(), "': its shape is ", want.dims.ToString(),
                 " but the value's is ", given.dims.ToString(), Declared(var.name()));
  }

  void BindFetches() {
    for (const std::string& name : fetches_) {
      const proto::VarDesc* var = program_->FindVarHere(0, name);
      if (var == nullptr) {
        std::vector<std::string> names;
        for (const proto::VarDesc& v : plan_->desc.blocks(0).vars()) names.push_back(v.name());
        Fail("cannot fetch '", name, "': program '", program_->name(), "' has no such variable",
             DidYouMean(name, names));
      }
      uint32_t slot = plan_->FindSlot(0, name);
      if (slot == 0 && var->persistable()) {
        slot = AddSlot(0, *var);
        plan_->slots[slot].read_first = true;
      }
      OPSTEP_CHECK(
          slot != 0 && (defined_.count(slot) != 0 || plan_->slots[slot].storage != Storage::kArena),
          "cannot fetch '", name, "': no op of program '", program_->name(), "' computes it");
      if (plan_->slots[slot].storage == Storage::kArena)
        plan_->slots[slot].storage = Storage::kFetch;
      plan_->fetch_slots.push_back(slot);
    }
  }

  // ---- slots

  uint32_t AddSlot(int block, const proto::VarDesc& var) {
    const auto [it, added] = plan_->slot_of[block].emplace(var.name(), plan_->slots.size());
    if (!added) return it->second;
    SlotPlan slot{.name = var.name(), .block = block, .type = {}};
    if (var.kind() == proto::STACK) slot.storage = Storage::kStack;
    if (var.kind() == proto::READER) slot.storage = Storage::kReader;
    if (var.persistable()) {
      slot.storage = Storage::kScope;
      slot.owner = program_->OwnerOf(var.name());
      slot.type = TypeOf(var);
      OPSTEP_CHECK(slot.type.dims.known(), "'", var.name(),
                   "' is persistable, so all its sizes must be known, but it is ",
                   slot.type.ToString());
      plan_->scope_slots.push_back(static_cast<uint32_t>(plan_->slots.size()));
    }
    plan_->slots.push_back(std::move(slot));
    return it->second;
  }

  uint32_t SlotOf(int block, const std::string& name) {
    if (name.empty()) return 0;
    for (int b = block; b >= 0; b = program_->block(b).parent()) {
      if (const proto::VarDesc* var = program_->FindVarHere(b, name)) return AddSlot(b, *var);
    }
    return 0;
  }

  // ---- instructions

  void Block(int block) {
    BlockPlan& code = plan_->blocks[block];
    for (const proto::OpDesc& op : plan_->desc.blocks(block).ops()) {
      try {
        OneOp(block, op);
      } catch (const Error& error) {
        if (placed_) throw;
        placed_ = true;
        throw Error(Cat("[", op.type(), "] ", error.what(), program_->Place(op)));
      }
    }
    for (size_t i = 0; i < code.code.size(); ++i) code.code[i].index = static_cast<uint32_t>(i);
  }

  void OneOp(int block, const proto::OpDesc& op) {
    const OpDef& def = GetOp(op.type());
    const std::vector<Arg> in_args = InputArgs(op, block), out_args = OutputArgs(op, block);
    std::vector<uint32_t> ins, outs;
    // A block that runs once comes before the readers of its results; its own reads are seen at its
    // ops.
    const bool once = def.role == OpRole::kOnce;
    for (const Arg& arg : in_args) {
      ins.push_back(arg.inner() ? 0 : once ? SlotOf(block, arg.name) : Input(block, arg.name));
    }
    for (const Arg& arg : out_args) {
      outs.push_back(SlotOf(arg.block, arg.name));
      if (!arg.inner() || outs.back() == 0) continue;
      plan_->slots[outs.back()].given = true;
      plan_->slots[outs.back()].whole_block = true;
    }
    const std::vector<int> blocks = OpView(op).Blocks();
    if (!blocks.empty()) {
      // The values handed to its blocks must be known before they are compiled; their results are
      // known only afterwards.
      Types(block, op, def, ins, outs, out_args, true);
      for (const int child : blocks) {
        plan_->blocks[child].resized = def.resizes_blocks || plan_->blocks[block].resized;
        plan_->blocks[child].shaped = def.shapes_blocks ? child : plan_->blocks[block].shaped;
        SubBlock(block, child, in_args, ins);
      }
    }
    if (once) FilledOnce(ins[0], outs);
    Types(block, op, def, ins, outs, out_args, false);

    CheckDTypes(in_args, ins);
    CheckDTypes(out_args, outs);
    Kernel kernel;
    if (plan_->blocks[block].shaped < 0) {
      std::vector<VarType> in_types, out_types;
      for (const uint32_t slot : ins) in_types.push_back(plan_->slots[slot].type);
      for (const uint32_t slot : outs) out_types.push_back(plan_->slots[slot].type);
      kernel = PrepareKernel(PrepareContext(OpView(op), std::move(in_types), std::move(out_types),
                                            constants_.Values(ins)));
      constants_.Fold(block, op, in_args, ins, outs, kernel);
    }
    if (plan_->blocks[block].varies()) kernel = ThroughVariant(plan_->varying_calls++);

    Instruction instruction;
    instruction.run = kernel.run;
    instruction.state = kernel.state.get();
    instruction.n_in = static_cast<uint16_t>(ins.size());
    instruction.n_out = static_cast<uint16_t>(outs.size());
    instruction.op_id = op.id();
    instruction.op = &op;
    OPSTEP_CHECK(ins.size() <= UINT16_MAX && outs.size() <= UINT16_MAX,
                 "it has too many variables");
    if (kernel.state != nullptr) plan_->states.push_back(std::move(kernel.state));
    plan_->args.insert(plan_->args.end(), ins.begin(), ins.end());
    plan_->args.insert(plan_->args.end(), outs.begin(), outs.end());
    plan_->blocks[block].code.push_back(instruction);
  }

  void FilledOnce(uint32_t done, const std::vector<uint32_t>& outs) {
    OPSTEP_CHECK(plan_->slots[done].storage == Storage::kScope, "done ('", plan_->slots[done].name,
                 "') must be persistable");
    for (const uint32_t slot : outs) {
      SlotPlan& plan = plan_->slots[slot];
      const bool fills = !plan.read_first && defined_.count(slot) == 0;
      if (slot == done || (plan.storage == Storage::kScope && fills)) plan.filled_once = done;
    }
  }

  // A program from a file has not been built op by op.
  void CheckDTypes(const std::vector<Arg>& args, const std::vector<uint32_t>& slots) const {
    for (size_t i = 0; i < args.size(); ++i) {
      const SlotPlan& plan = plan_->slots[slots[i]];
      if (slots[i] == 0 || plan.storage == Storage::kStack || plan.storage == Storage::kReader)
        continue;
      const SlotSchema& slot = *args[i].slot;
      OPSTEP_CHECK(slot.dtypes.Has(plan.type.dtype), slot.name, " ('", plan.name, "') is ",
                   NameOf(plan.type.dtype), "; it takes ", slot.dtypes.Names());
    }
  }

  uint32_t Input(int block, const std::string& name) {
    const uint32_t slot = SlotOf(block, name);
    if (slot == 0) return 0;
    SlotPlan& plan = plan_->slots[slot];
    if (plan.storage == Storage::kScope) {
      if (defined_.count(slot) == 0) plan.read_first = true;
    } else if (plan.storage != Storage::kStack) {
      OPSTEP_CHECK(defined_.count(slot) != 0 || fed_.count(slot) != 0, "'", name,
                   "' is read before any op has written it");
    }
    return slot;
  }

  // The results that the op takes from the block get places in `ins`.
  void SubBlock(int block, int child, const std::vector<Arg>& in_args, std::vector<uint32_t>& ins) {
    plan_->blocks[child].parent_index = static_cast<uint32_t>(plan_->blocks[block].code.size());
    std::unordered_set<uint32_t> before = defined_;
    Block(child);
    for (size_t i = 0; i < in_args.size(); ++i) {
      if (!in_args[i].inner() || in_args[i].block != child) continue;
      ins[i] = Input(child, in_args[i].name);
      SlotPlan& result = plan_->slots[ins[i]];
      if (result.block == child) result.whole_block = true;
    }
    for (const uint32_t slot : defined_) {
      const SlotPlan& plan = plan_->slots[slot];
      OPSTEP_CHECK(before.count(slot) != 0 || plan_->Inside(plan.block, child) ||
                       plan.storage != Storage::kArena,
                   "'", plan.name,
                   "' is written only inside a block that may not run: assign to it before");
    }
    defined_ = std::move(before);
  }

  // `handed`: only variables that the op hands to its blocks.
  void Types(int block, const proto::OpDesc& op, const OpDef& def, const std::vector<uint32_t>& ins,
             const std::vector<uint32_t>& outs, const std::vector<Arg>& out_args, bool handed) {
    std::vector<VarType> in_types;
    for (const uint32_t slot : ins) in_types.push_back(plan_->slots[slot].type);
    const std::vector<VarType> types = InferTypes(op, in_types, constants_.Values(ins));
    for (size_t i = 0; i < outs.size(); ++i) {
      if (outs[i] == 0 || (handed && !out_args[i].inner())) continue;
      SlotPlan& slot = plan_->slots[outs[i]];
      if (plan_->blocks[block].shaped >= 0 || (def.shapes_blocks && out_args[i].inner())) {
        // It is the source's own memory.
        const int home = slot.block;
        OPSTEP_CHECK(out_args[i].inner() || !slot.given || plan_->blocks[home].shaped != home, "'",
                     slot.name, "' is handed to the block and cannot be written: write into a new ",
                     "variable");
        // Sizes are checked when the variant is made.
        const bool told = types[i].dtype != DType::kNone;
        if (slot.type.dtype == DType::kNone)
          slot.type = told ? types[i] : TypeOf(*program_->FindVar(out_args[i].block, slot.name));
        defined_.insert(outs[i]);
        continue;
      }
      if (def.role == OpRole::kFeed) {
        OPSTEP_CHECK(fed_.count(outs[i]) != 0, "'", slot.name, "' must be fed: it is ",
                     types[i].ToString());
      } else if (slot.type.dtype == DType::kNone) {
        slot.type = types[i];
        OPSTEP_CHECK(slot.type.dims.known(), "the shape of '", slot.name,
                     "' is not known: ", slot.type.ToString());
      } else {
        // kNone: the op leaves the variable as it is.
        OPSTEP_CHECK(types[i].dtype == DType::kNone || slot.type == types[i], "it would change '",
                     slot.name, "' from ", slot.type.ToString(), " to ", types[i].ToString());
      }
      defined_.insert(outs[i]);
    }
  }

  void LinkArgs() {
    const uint32_t* next = plan_->args.data();
    // Args were appended in the order in which ops were finished, sub-blocks before the op that
    // runs them.
    Link(0, next);
  }

  void Link(int block, const uint32_t*& next) {
    for (Instruction& instruction : plan_->blocks[block].code) {
      for (const int child : OpView(*instruction.op).Blocks()) Link(child, next);
      instruction.args = next;
      next += instruction.n_in + instruction.n_out;
    }
  }

  const std::shared_ptr<const Program> program_;
  const std::vector<FeedType>& feeds_;
  const std::vector<std::string>& fetches_;
  std::shared_ptr<Plan> plan_;
  Constants constants_;
  std::unordered_set<uint32_t> fed_;
  // Slots that hold a value at the current op.
  std::unordered_set<uint32_t> defined_;
  // The error already names its place.
  bool placed_ = false;
};

}  // namespace

std::shared_ptr<Plan> Compile(std::shared_ptr<const Program> program,
                              const std::vector<FeedType>& feeds,
                              const std::vector<std::string>& fetches) {
  const auto start = std::chrono::steady_clock::now();
  std::shared_ptr<Plan> plan = Compiler(std::move(program), feeds, fetches).Run();
  plan->compile_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

}  // namespace opstep
