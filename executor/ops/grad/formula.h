// Gradients of ops that are written as formulas over other ops.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ops/grad/terms.h"

namespace opstep {

// The gradient of an op that can be written as a formula over others, with a result for each output
// slot. The formula's ops are added, and differentiated by their own rules. Gradients go to the
// first variable of the slots in `reads`.
void FormulaGradient(GradContext& g, const std::vector<std::pair<std::string, Term>>& outputs,
                     const Names& reads);

// Each is defined in the file of its op.
Term SqrtOf(const Term& x);
Term SoftplusOf(const Term& x);
// Spreads a sum along the axes of the differentiated op over x again.
Term SpreadBack(GradContext& g, const Term& sums, const Term& x);

}  // namespace opstep
