// arg_max and arg_min: the index of the largest and of the smallest element along an axis.
#include "ops/lib/axis_rows.h"
#include "ops/lib/dispatch.h"
#include "ops/op.h"

namespace opstep {
namespace {

struct State {
  AxisRows rows;
  bool last = false;
};

// NaN beats every number.
template <bool kMax, typename T>
bool Beats(T value, T so_far, bool last) {
  if (so_far != so_far) return last && value != value;
  if (value != value) return true;
  return (kMax ? value > so_far : value < so_far) || (last && value == so_far);
}

template <bool kMax, typename T>
void Run(KernelContext& ctx) {
  const auto& [rows, last] = ctx.state<State>();
  const T* x = ctx.in(0).as<T>();
  int64_t* out = ctx.out(0).as<int64_t>();
  ForEachRow(rows, [&](int64_t at, int64_t step) {
    int64_t best = 0;
    for (int64_t k = 1; k < rows.size; ++k) {
      if (Beats<kMax>(x[at + k * step], x[at + best * step], last)) best = k;
    }
    *out++ = best;
  });
}

void Shape(ShapeContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  const int axis = NormalizeAxis(ctx.op().Int("axis"), x, "X");
  OPSTEP_CHECK(x[axis] != 0, "X is ", x.ToString(), ": axis ", axis, " has no elements");
  Dims out;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != axis) out.push_back(x[i]);
    if (i == axis && ctx.op().Bool("keepdims")) out.push_back(1);
  }
  ctx.set_out(0, {DType::kInt64, out});
}

template <bool kMax>
bool Register(std::string type, std::string which, std::string oracle) {
  return Op(std::move(type))
      .Doc("The index of the " + which +
           " element along an axis; the first one when several are equal, and that of a NaN when "
           "there is one.")
      .In("X", "at least one dimension", kNumbers)
      .Attr(IntAttr("axis", 0), "the axis to search, negative from the end")
      .Attr(BoolAttr("keepdims", true), "keep the axis with size 1")
      .Attr(BoolAttr("select_last_index", false), "the last one when several are equal")
      .Out("out", "the indexes", DTypeSet(DType::kInt64))
      .Shape(Shape)
      .Prepare([](const PrepareContext& ctx) -> Kernel {
        const State state{MakeAxisRows(ctx.in(0).dims, ctx.op().Int("axis"), "X"),
                          ctx.op().Bool("select_last_index")};
        return DispatchNumbers(ctx.in(0).dtype,
                               [&](auto t) { return WithState(Run<kMax, decltype(t)>, state); });
      })
      .Oracle("Y = np.flip(X, axis) if select_last_index else X\nat = " + oracle +
              "(Y, axis=axis, keepdims=keepdims)\n"
              "X.shape[axis] - 1 - at if select_last_index else at")
      .Sample("X=[5,7] axis=1 keepdims=False")
      .Sample("X=[5,7]")
      .Sample("X=[2,9,3]{0,2} axis=-2")
      .Sample("X=int32[4,33]{0,2} axis=1 select_last_index=True")
      .Sample("X=[5,4] axis=0 select_last_index=True keepdims=False")
      .Sample("X=[1] keepdims=False")
      .Sample("X=[0,4] axis=1")
      .Sample("X=float64[8,16]{special} axis=1")
      .Sample("X=float64[8,16]{special} axis=1 select_last_index=True")
      .Register();
}

const bool kArgMax = Register<true>("arg_max", "largest", "np.argmax");
const bool kArgMin = Register<false>("arg_min", "smallest", "np.argmin");

}  // namespace
}  // namespace opstep
