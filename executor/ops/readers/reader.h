// Parts of ops over readers.
// A reader variable's slot holds the Source; the variable's type says nothing.
#pragma once

#include <memory>
#include <utility>

#include "data/source.h"
#include "ops/op.h"

namespace opstep {

inline void ReaderShape(ShapeContext& ctx) { ctx.set_out(0, {DType::kUInt8, {}}); }

inline std::shared_ptr<Source> ReaderOf(const Tensor& slot) {
  OPSTEP_CHECK(slot.data != nullptr,
               "another reader was made of the reader already: only one may read from it");
  return {slot.owner, static_cast<Source*>(slot.data)};
}

// For a reader made from it: two of them would read from it at the same time.
inline std::shared_ptr<Source> TakeReader(KernelContext& ctx) {
  std::shared_ptr<Source> source = ReaderOf(ctx.in(0));
  Tensor& slot = const_cast<Tensor&>(ctx.in(0));
  slot.data = nullptr;
  slot.owner = nullptr;
  return source;
}

inline void SetReader(Tensor& slot, std::shared_ptr<Source> source) {
  slot.data = source.get();
  slot.owner = std::move(source);
}

}  // namespace opstep
