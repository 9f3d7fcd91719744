// accuracy: the share of rows whose label is among the k best classes.
#include "ops/lib/dispatch.h"
#include "ops/loss/label_rows.h"
#include "ops/op.h"

namespace opstep {
namespace {

// The number of elements of a row that come before its element `at` in the order of top_k: larger
// ones, NaN, and equal ones with a lower index.
template <typename T>
int64_t Rank(const T* x, int64_t n, int64_t at) {
  const T value = x[at];
  int64_t rank = 0;
  for (int64_t i = 0; i < n; ++i) {
    const bool equal = x[i] == value || (x[i] != x[i] && value != value);
    const bool larger = x[i] > value || (x[i] != x[i] && value == value);
    rank += equal ? i < at : larger;
  }
  return rank;
}

template <typename T>
void Run(KernelContext& ctx) {
  const Tensor& x = ctx.in(0);
  const int64_t* label = ctx.in(1).as<int64_t>();
  const int64_t k = ctx.state<int64_t>();
  const int64_t rows = x.dims[0], classes = x.dims[1];
  int64_t right = 0;
  for (int64_t row = 0; row < rows; ++row) {
    CheckLabel("label", row, label[row], classes);
    right += Rank(x.as<T>() + row * classes, classes, label[row]) < k;
  }
  *ctx.out(0).as<float>() = static_cast<float>(static_cast<double>(right) / rows);
}

const bool kAccuracy =
    Op("accuracy")
        .Doc("The share of the rows whose label is among the k best classes; NaN without rows.")
        .In("X", "[N, classes]: probabilities or other scores", kFloats)
        .In("label", "[N] or [N, 1]: the right class of each row", DTypeSet(DType::kInt64))
        .Attr(IntAttr("k", 1), "how many of the best classes count")
        .Out("out", "[]: between 0 and 1", DTypeSet(DType::kFloat32))
        .Shape([](ShapeContext& ctx) {
          CheckLabelShape(ctx.in(0).dims, "X", ctx.in(1).dims);
          OPSTEP_CHECK(ctx.op().Int("k") >= 1, "k is ", ctx.op().Int("k"),
                       ": it must be 1 or more");
          ctx.set_out(0, {DType::kFloat32, Dims{}});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
            return WithState(Run<decltype(t)>, ctx.op().Int("k"));
          });
        })
        .Oracle(R"(
n = X.shape[1]
order = n - 1 - np.flip(np.argsort(np.flip(X, 1), axis=1, kind="stable"), 1)
hits = (order[:, :k] == label.reshape(-1, 1)).any(axis=1)
np.float32(hits.mean(dtype=np.float64))
)")
        .Sample("X=[33,5] label=[33,1]{0,4}")
        .Sample("X=[33,5] label=[33]{0,4} k=2")
        .Sample("X=[9,4]{0,0} label=[9]{0,3} k=2")
        .Sample("X=[9,4] label=[9]{0,3} k=7")
        .Sample("X=[1,1] label=[1]{0,0}")
        .Sample("X=[0,4] label=[0,1]{0,3}")
        .Sample("X=float32[26,4]{special} label=[26]{0,3} k=2")
        .Register();

}  // namespace
}  // namespace opstep
