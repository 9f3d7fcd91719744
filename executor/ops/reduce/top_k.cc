// top_k: the k largest or smallest elements along an axis and where they are; its gradient.
#include <utility>

#include "ops/lib/axis_rows.h"
#include "ops/lib/dispatch.h"
#include "ops/op.h"

namespace opstep {
namespace {

struct State {
  AxisRows rows;
  int64_t k = 0;
  bool sorted = true;
};

// A heap over n places that lie `step` apart, with the last in order on top.
template <typename Before>
void SiftDown(int64_t* heap, int64_t step, int64_t at, int64_t n, Before before) {
  while (true) {
    int64_t child = 2 * at + 1;
    if (child >= n) return;
    if (child + 1 < n && before(heap[child * step], heap[(child + 1) * step])) ++child;
    if (!before(heap[at * step], heap[child * step])) return;
    std::swap(heap[at * step], heap[child * step]);
    at = child;
  }
}

template <typename Before>
void MakeHeap(int64_t* heap, int64_t step, int64_t n, Before before) {
  for (int64_t at = n / 2 - 1; at >= 0; --at) SiftDown(heap, step, at, n, before);
}

template <typename Before>
void SortHeap(int64_t* heap, int64_t step, int64_t n, Before before) {
  for (int64_t end = n - 1; end > 0; --end) {
    std::swap(heap[0], heap[end * step]);
    SiftDown(heap, step, 0, end, before);
  }
}

// Needs no extra memory: the best k so far are a heap in the row of indices.
template <bool kLargest, typename T>
void Run(KernelContext& ctx) {
  const auto& [rows, k, sorted] = ctx.state<State>();
  if (k == 0) return;
  const AxisRows chosen{rows.outer, k, rows.inner};
  const T* x = ctx.in(0).as<T>();
  int64_t row = 0;
  ForEachRow(chosen, [&](int64_t at, int64_t step) {
    const T* from = x + row / rows.inner * rows.size * rows.inner + row % rows.inner;
    ++row;
    T* values = ctx.out(0).as<T>() + at;
    int64_t* indices = ctx.out(1).as<int64_t>() + at;
    // NaN is larger than every number; the lower index comes first among equals.
    const auto before = [&](int64_t a, int64_t b) {
      const T p = from[a * step], q = from[b * step];
      if (p == q || (p != p && q != q)) return a < b;
      const bool larger = p > q || p != p;
      return larger == kLargest;
    };
    for (int64_t i = 0; i < k; ++i) indices[i * step] = i;
    MakeHeap(indices, step, k, before);
    for (int64_t i = k; i < rows.size; ++i) {
      if (!before(i, indices[0])) continue;
      indices[0] = i;
      SiftDown(indices, step, 0, k, before);
    }
    if (sorted) {
      SortHeap(indices, step, k, before);
    } else {
      const auto first = [](int64_t a, int64_t b) { return a < b; };
      MakeHeap(indices, step, k, first);
      SortHeap(indices, step, k, first);
    }
    for (int64_t i = 0; i < k; ++i) values[i * step] = from[indices[i * step] * step];
  });
}

template <typename T>
void RunGrad(KernelContext& ctx) {
  const auto& [rows, k, sorted] = ctx.state<State>();
  const Tensor& d = ctx.in(2);
  Tensor& dx = ctx.out(0);
  std::fill_n(dx.as<T>(), dx.numel, T(0));
  const int64_t* indices = ctx.in(1).as<int64_t>();
  for (int64_t i = 0; i < d.numel; ++i) {
    const int64_t index = indices[i];
    OPSTEP_CHECK(index >= 0 && index < rows.size, "indices holds ", index, " but the axis has ",
                 rows.size, " elements");
    const int64_t outer = i / (k * rows.inner);
    dx.as<T>()[(outer * rows.size + index) * rows.inner + i % rows.inner] += d.as<T>()[i];
  }
}

State MakeState(const PrepareContext& ctx) {
  return {MakeAxisRows(ctx.in(0).dims, ctx.op().Int("axis"), "X"), ctx.op().Int("k"),
          ctx.op().Bool("sorted")};
}

void Shape(ShapeContext& ctx) {
  Dims dims = ctx.in(0).dims;
  const int axis = NormalizeAxis(ctx.op().Int("axis"), dims, "X");
  const int64_t k = ctx.op().Int("k");
  OPSTEP_CHECK(k >= 0 && (dims[axis] < 0 || k <= dims[axis]), "k is ", k, " but X is ",
               dims.ToString(), ": axis ", axis,
               " must have at least k elements, and k be 0 or more");
  dims[axis] = k;
  ctx.set_out(0, {ctx.in(0).dtype, dims});
  ctx.set_out(1, {DType::kInt64, dims});
}

const bool kTopK =
    Op("top_k")
        .Doc(
            "The k largest or smallest elements along an axis and where they are; the first ones "
            "when several are equal.")
        .In("X", "at least one dimension", kNumbers)
        .Required("k", AttrType::kInt, "how many")
        .Attr(IntAttr("axis", -1), "the axis, negative from the end")
        .Attr(BoolAttr("largest", true), "the largest ones; else the smallest")
        .Attr(BoolAttr("sorted", true), "the best first; else in the order of X")
        .Out("values", "as X, with size k in the axis", kNumbers)
        .Out("indices", "their places along the axis", DTypeSet(DType::kInt64))
        .Shape(Shape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const State state = MakeState(ctx);
          return DispatchNumbers(ctx.in(0).dtype, [&](auto t) {
            using T = decltype(t);
            return ctx.op().Bool("largest") ? WithState(Run<true, T>, state)
                                            : WithState(Run<false, T>, state);
          });
        })
        .Grad(
            [](GradContext& g) { g.EmitGrad("top_k_grad", {"X"}, {"indices"}, {"values"}, {"X"}); })
        .Oracle(R"(
if largest:
    order = X.shape[axis] - 1 - np.flip(np.argsort(np.flip(X, axis), axis=axis, kind="stable"), axis)
else:
    order = np.argsort(X, axis=axis, kind="stable")
indices = np.take(order, np.arange(k), axis=axis)
indices = indices if sorted else np.sort(indices, axis=axis)
(np.take_along_axis(X, indices, axis=axis), indices.astype(np.int64))
)")
        .Sample("X=[5,17] k=3")
        .Sample("X=[5,17] k=3 largest=False")
        .Sample("X=[5,17] k=6 sorted=False")
        .Sample("X=[9,5] k=4 axis=0")
        .Sample("X=[2,9,3]{0,2} k=5 axis=-2")
        .Sample("X=[2,9,3]{0,2} k=5 axis=-2 largest=False sorted=False")
        .Sample("X=int64[3,100]{0,5} k=100")
        .Sample("X=[3,4] k=0")
        .Sample("X=[1] k=1")
        .Sample("X=[0,4] k=2")
        .Sample("X=float32[8,16]{special} k=9")
        .Sample("X=float32[8,16]{special} k=14 largest=False")
        .Register();

const bool kTopKGrad = Op("top_k_grad")
                           .Doc("Gradient of top_k: dvalues to the elements that were chosen.")
                           .In("X", "input of top_k", kFloats)
                           .ShapeOnly()
                           .In("indices", "output of top_k", DTypeSet(DType::kInt64))
                           .In("dvalues", "gradient of values", kFloats)
                           .Required("k", AttrType::kInt, "as in the forward op")
                           .Attr(IntAttr("axis", -1), "as in the forward op")
                           .Attr(BoolAttr("largest", true), "as in the forward op")
                           .Attr(BoolAttr("sorted", true), "as in the forward op")
                           .Out("dX", "gradient of X", kFloats)
                           .Shape(OutLikeInput<0>)
                           .Prepare([](const PrepareContext& ctx) -> Kernel {
                             return DispatchFloats(ctx.in(0).dtype, [&](auto t) {
                               return WithState(RunGrad<decltype(t)>, MakeState(ctx));
                             });
                           })
                           .Register();

}  // namespace
}  // namespace opstep
