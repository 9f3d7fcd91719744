// constant: a tensor that is part of the program.
#include <cstring>
#include <string>

#include "ops/op.h"

namespace opstep {
namespace {

VarType TypeOfLiteral(const proto::TensorLiteral& literal) {
  VarType type{static_cast<DType>(literal.dtype()), {}};
  for (int64_t size : literal.dims()) {
    OPSTEP_CHECK(size >= 0, "value has a size of ", size, ": every size must be 0 or more");
    type.dims.push_back(size);
  }
  const size_t bytes = static_cast<size_t>(type.dims.numel()) * SizeOf(type.dtype);
  OPSTEP_CHECK(literal.data().size() == bytes, "value is ", type.ToString(), " and needs ", bytes,
               " bytes but has ", literal.data().size());
  return type;
}

const bool kConstant =
    Op("constant")
        .Doc("A tensor that is part of the program.")
        .Required("value", AttrType::kTensor, "the tensor")
        .Out("out", "the tensor", kEvery)
        .Shape([](ShapeContext& ctx) { ctx.set_out(0, TypeOfLiteral(ctx.op().Literal("value"))); })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const auto run = [](KernelContext& c) {
            const std::string& bytes = c.state<std::string>();
            if (!bytes.empty()) std::memcpy(c.out(0).data, bytes.data(), bytes.size());
          };
          return WithState<std::string>(run, ctx.op().Literal("value").data());
        })
        .Oracle("value")
        .Sample("value=float32[3,5]")
        .Sample("value=int64[]{3,9}")
        .Sample("value=bool[7]")
        .Sample("value=float64[0,2]")
        .Sample("value=float32[9]{special}")
        .Register();

}  // namespace
}  // namespace opstep
