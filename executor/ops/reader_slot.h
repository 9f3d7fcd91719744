#pragma once

#include <memory>
#include <utility>

#include "data/source.h"
#include "ops/op.h"

namespace opstep {

// Parts of ops that make a reader, their only output.

// A reader has no type of its own.
inline void SetReader(ShapeContext& ctx) { ctx.set_out(0, {DType::kUInt8, {}}); }

inline void PutReader(KernelContext& ctx, std::shared_ptr<Source> source) {
  ctx.out(0).data = source.get();
  ctx.out(0).owner = std::move(source);
}

}  // namespace opstep
