// check_indices: passes indices on, after a test that they run from 0.
#include "ops/grad/terms.h"
#include "ops/indexing/index_lookup.h"

namespace opstep {
namespace {

struct State {
  int64_t size = 0;
};

void Run(KernelContext& ctx) {
  const Tensor& x = ctx.in(0);
  const int64_t size = ctx.state<State>().size;
  WithIndices(x, [&](const auto* values) {
    for (int64_t i = 0; i < x.numel; ++i) {
      OPSTEP_CHECK(values[i] >= 0 && values[i] < size, "index ", values[i],
                   " is out of range: indices run from 0 to ", size - 1);
    }
  });
  if (ctx.out(0).data != x.data && x.numel > 0) std::memcpy(ctx.out(0).data, x.data, x.bytes());
}

const bool kCheckIndices =
    Op("check_indices")
        .Doc(
            "Passes indices on, with an error if one is negative or too large. Other ops count "
            "negative indices from the end.")
        .In("X", "any shape", kIndices)
        .Required("size", AttrType::kInt, "how many elements the indices choose from")
        .Out("out", "as X", kIndices)
        .InplaceOf("X")
        .Shape(OutLikeInput<0>)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return WithState(&Run, State{ctx.op().Int("size")});
        })
        .Oracle("X.copy()")
        .Sample("X=int64[5,3]{0,6} size=7")
        .Sample("X=int32[4]{0,3} size=4")
        .Sample("X=int64[0] size=0")
        .Register();

}  // namespace
}  // namespace opstep
