#pragma once

#include <string>
#include <vector>

#include "base/tensor.h"
#include "program.pb.h"

namespace opstep {

// Names of an op's variables in the order of KernelContext; "" for a missing optional one.
std::vector<std::string> FlatInputs(const proto::OpDesc& op);
std::vector<std::string> FlatOutputs(const proto::OpDesc& op);
// The types of an op's outputs, in that order, from those of its inputs: its shape rule.
std::vector<VarType> InferTypes(const proto::OpDesc& op, const std::vector<VarType>& inputs);

}  // namespace opstep
