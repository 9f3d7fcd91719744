// Constants: folding of ops whose inputs are known.
#include "plan/constants.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ops/op.h"

namespace opstep {

std::map<std::pair<int, std::string>, int> CountWriters(const proto::ProgramDesc& program) {
  std::vector<std::set<std::string>> own(static_cast<size_t>(program.blocks_size()));
  for (int b = 0; b < program.blocks_size(); ++b) {
    for (const proto::VarDesc& var : program.blocks(b).vars()) own[b].insert(var.name());
  }
  std::map<std::pair<int, std::string>, int> writers;
  for (int b = 0; b < program.blocks_size(); ++b) {
    for (const proto::OpDesc& op : program.blocks(b).ops()) {
      for (const Arg& arg : OutputArgs(op, b)) {
        int home = arg.block;
        while (home >= 0 && own[home].count(arg.name) == 0) home = program.blocks(home).parent();
        ++writers[{home, arg.name}];
      }
    }
  }
  return writers;
}

std::vector<const Tensor*> Constants::Values(const std::vector<uint32_t>& slots) const {
  std::vector<const Tensor*> values;
  for (const uint32_t slot : slots) {
    const auto it = typing_.constants.find(slot);
    values.push_back(it == typing_.constants.end() ? nullptr : &it->second);
  }
  return values;
}

bool Constants::Foldable(int block, const proto::OpDesc& op, const std::vector<Arg>& in_args,
                         const std::vector<uint32_t>& ins,
                         const std::vector<uint32_t>& outs) const {
  // Larger tensors would take memory for the life of the plan, unless the program holds them
  // anyway.
  constexpr size_t kLargest = 64 << 10;
  const OpDef& def = GetOp(op.type());
  if (def.side_effect || def.own_test || plan_.blocks[block].resized) return false;
  for (size_t i = 0; i < ins.size(); ++i) {
    const bool known =
        ins[i] == 0 || in_args[i].slot->shape_only || typing_.constants.count(ins[i]) != 0;
    if (!known) return false;
  }
  const bool literal = std::any_of(op.attrs().begin(), op.attrs().end(),
                                   [](const proto::Attr& attr) { return attr.has_tensor(); });
  return std::all_of(outs.begin(), outs.end(), [&](uint32_t slot) {
    const SlotPlan& plan = typing_.slots[slot];
    if (slot == 0) return true;
    return plan.storage == Storage::kArena && !plan.given &&
           plan_.writers.at({plan.block, plan.name}) == 1 &&
           (literal || Tensor(plan.type).bytes() <= kLargest);
  });
}

void Constants::Fold(int block, const proto::OpDesc& op, const std::vector<Arg>& in_args,
                     const std::vector<uint32_t>& ins, const std::vector<uint32_t>& outs,
                     Kernel& kernel) {
  if (!Foldable(block, op, in_args, ins, outs)) return;
  std::vector<Tensor> tensors;
  std::vector<uint32_t> args;
  for (const uint32_t slot : ins) {
    const auto known = typing_.constants.find(slot);
    tensors.push_back(known != typing_.constants.end() ? known->second
                      : slot == 0                      ? Tensor()
                                                       : Tensor(typing_.slots[slot].type));
  }
  for (const uint32_t slot : outs)
    tensors.push_back(slot == 0 ? Tensor() : Tensor::Allocate(typing_.slots[slot].type));
  for (size_t i = 0; i < tensors.size(); ++i) args.push_back(static_cast<uint32_t>(i));
  const KernelCall call{.run = kernel.run,
                        .state = kernel.state.get(),
                        .args = args.data(),
                        .n_in = static_cast<uint16_t>(ins.size()),
                        .n_out = static_cast<uint16_t>(outs.size())};
  KernelContext context(tensors.data(), nullptr);
  context.call = &call;
  try {
    call.run(context);
  } catch (const Error&) {
    return;  // it will fail again, at its place in the run
  }
  for (size_t i = 0; i < outs.size(); ++i) {
    if (outs[i] == 0) continue;
    typing_.slots[outs[i]].storage = Storage::kConstant;
    typing_.constants[outs[i]] = std::move(tensors[ins.size() + i]);
  }
  typing_.folded[op.id()] = std::exchange(kernel, {[](KernelContext&) {}, nullptr});
}

}  // namespace opstep
