// InheritedLod: which outputs of an op have the sequences of an input.
#pragma once

#include <vector>

#include "ir/program.h"

namespace opstep {

using Lod = google::protobuf::RepeatedPtrField<proto::LodLevel>;

// For each output of an op (in the order of OutputArgs) the sequences that it takes over from an
// input, because its rows are that input's rows; none for the others, and for all when no input has
// sequences. `inputs` are the inputs' types.
std::vector<Lod> InheritedLod(const Program& program, int block, const proto::OpDesc& op,
                              const std::vector<VarType>& inputs);

}  // namespace opstep
