// AppendBackward: appends the gradients of a loss to a program.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/program.h"

namespace opstep {

// Appends to a block the ops that compute the gradient of `loss` (one element) for every trainable
// parameter it depends on, or for `wanted` when given. Each gradient op is linked to its forward op
// and carries its line; the op that starts with the loss's own gradient, 1, has the link and line
// of `made_by`, if given. Gives the variables with the names of their gradients.
std::vector<std::pair<std::string, std::string>> AppendBackward(
    Program& program, int block, const std::string& loss,
    const std::vector<std::string>& wanted = {}, const proto::OpDesc* made_by = nullptr);

}  // namespace opstep
