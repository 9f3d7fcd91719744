#pragma once

#include <memory>
#include <utility>

#include "data/source.h"
#include "ops/op.h"

namespace opstep {

// Parts of ops over readers. A reader variable's slot holds the Source; the variable's type says
// nothing.

inline void ReaderShape(ShapeContext& ctx) { ctx.set_out(0, {DType::kUInt8, {}}); }

inline std::shared_ptr<Source> ReaderOf(const Tensor& slot) {
  OPSTEP_CHECK(slot.data != nullptr, "the reader was used already: what reads from it owns it");
  return {slot.owner, static_cast<Source*>(slot.data)};
}

inline void SetReader(Tensor& slot, std::shared_ptr<Source> source) {
  slot.data = source.get();
  slot.owner = std::move(source);
}

}  // namespace opstep
