// Prepares the kernel of an op; narrow dtypes get the kernel of a wider one.
#pragma once

#include "ops/kernel.h"

namespace opstep {

// The kernel of ctx.op() for these types. Where a slot widens a dtype (DTypeSet::Widens), the
// kernel is prepared for the wider one: each call converts the inputs, runs, and converts the
// outputs. So every op takes the narrow dtypes without being compiled for them, and rounds once.
Kernel PrepareKernel(const PrepareContext& ctx);

}  // namespace opstep
