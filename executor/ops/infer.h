// An op's variables in the order of its kernel, and the types of its outputs.
#pragma once

#include <string>
#include <vector>

#include "base/tensor.h"
#include "ir/schema.h"
#include "program.pb.h"

namespace opstep {

// Names of an op's variables in the order of KernelContext; "" for a missing optional one.
std::vector<std::string> FlatInputs(const proto::OpDesc& op);
std::vector<std::string> FlatOutputs(const proto::OpDesc& op);

// A variable with its slot and the block in which its name is looked up.
struct Arg {
  std::string name;
  const SlotSchema* slot;
  int block;
  // Handed to a block that the op runs, or a result of one.
  bool inner() const { return !slot->of_block.empty(); }
};

std::vector<Arg> InputArgs(const proto::OpDesc& op, int block);
std::vector<Arg> OutputArgs(const proto::OpDesc& op, int block);

// The types of an op's outputs, in that order, from those of its inputs: its shape rule. `values`
// are the inputs that are already known.
std::vector<VarType> InferTypes(const proto::OpDesc& op, const std::vector<VarType>& inputs,
                                const std::vector<const Tensor*>& values = {});

}  // namespace opstep
