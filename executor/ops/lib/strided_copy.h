// Copies or sums elements between two tensors by their strides, for any dtype.
#pragma once

#include <array>
#include <cstring>

#include "ops/lib/numeric.h"
#include "ops/lib/raw_elements.h"
#include "ops/lib/shape_rules.h"
#include "ops/lib/simd.h"
#include "ops/op.h"

namespace opstep {

using Strides = std::array<int64_t, Dims::kMaxRank>;

// The distance, in elements, of neighbours along each axis.
inline Strides DenseStrides(const Dims& dims) {
  Strides strides{};
  int64_t dense = 1;
  for (int i = dims.rank() - 1; i >= 0; --i) {
    strides[i] = dense;
    dense *= dims[i];
  }
  return strides;
}

// The product of the sizes of axes begin … end - 1.
inline int64_t ProductOf(const Dims& dims, int begin, int end) {
  int64_t product = 1;
  for (int i = begin; i < end; ++i) product *= dims[i];
  return product;
}

// The steps of two tensors, `from` and `to`, on a loop over the same number of elements in each: as
// few axes as possible, the innermost last.
struct StridedLoop {
  struct Axis {
    int64_t size = 1, from = 0, to = 0;
  };
  // Tiling splits each axis in two.
  std::array<Axis, 2 * Dims::kMaxRank> axes{};
  int rank = 0;
  // Its start.
  int64_t from = 0, to = 0;
  bool empty = false;

  // Adds the next inner axis.
  void Add(int64_t size, int64_t from_step, int64_t to_step) {
    empty |= size == 0;
    if (size == 1) return;
    if (rank > 0 && axes[rank - 1].from == size * from_step &&
        axes[rank - 1].to == size * to_step) {
      axes[rank - 1] = {axes[rank - 1].size * size, from_step, to_step};
    } else {
      axes[rank++] = {size, from_step, to_step};
    }
  }

  // The way back.
  StridedLoop Reversed() const {
    StridedLoop loop = *this;
    std::swap(loop.from, loop.to);
    for (Axis& axis : loop.axes) std::swap(axis.from, axis.to);
    return loop;
  }
};

// Over `box`, which lies at the start of both tensors.
inline StridedLoop BoxLoop(const Dims& box, const Dims& from, const Dims& to) {
  const Strides f = DenseStrides(from), t = DenseStrides(to);
  StridedLoop loop;
  for (int i = 0; i < box.rank(); ++i) loop.Add(box[i], f[i], t[i]);
  return loop;
}

// Calls run(from, to, axis) for each run along the innermost axis.
template <typename F>
OPSTEP_INLINE void ForEachRun(const StridedLoop& loop, F&& run) {
  if (loop.empty) return;
  const StridedLoop::Axis single{.size = 1, .from = 1, .to = 1};
  const StridedLoop::Axis& inner = loop.rank > 0 ? loop.axes[loop.rank - 1] : single;
  // Rows are counted separately from the outer axes: short runs would spend their time there.
  const StridedLoop::Axis rows = loop.rank > 1 ? loop.axes[loop.rank - 2] : StridedLoop::Axis{};
  std::array<int64_t, 2 * Dims::kMaxRank> index{};
  int64_t from = loop.from, to = loop.to;
  while (true) {
    int64_t f = from, t = to;
    for (int64_t row = 0; row < rows.size; ++row, f += rows.from, t += rows.to) run(f, t, inner);
    int d = loop.rank - 3;
    for (; d >= 0; --d) {
      const StridedLoop::Axis& axis = loop.axes[d];
      from += axis.from;
      to += axis.to;
      if (++index[d] < axis.size) break;
      from -= axis.from * axis.size;
      to -= axis.to * axis.size;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

template <typename U>
OPSTEP_INLINE void CopyElements(const U* from, U* to, int64_t n) {
  // A call costs more than a few elements do.
  if (n * static_cast<int64_t>(sizeof(U)) >= 32) {
    std::memcpy(to, from, n * sizeof(U));
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
  }
}

template <typename U>
OPSTEP_INLINE void CopyAlong(const StridedLoop& loop, const U* x, U* out) {
  ForEachRun(loop,
             [&](int64_t from, int64_t to, const StridedLoop::Axis& axis) OPSTEP_INLINE_LAMBDA {
               const U* source = x + from;
               U* target = out + to;
               if (axis.from == 1 && axis.to == 1) {
                 CopyElements(source, target, axis.size);
               } else if (axis.from == 0 && axis.to == 1) {
                 std::fill_n(target, axis.size, *source);
               } else if (axis.from == -1 && axis.to == 1) {
#pragma GCC ivdep
                 for (int64_t i = 0; i < axis.size; ++i) target[i] = source[-i];
               } else {
                 for (int64_t i = 0; i < axis.size; ++i)
                   target[i * axis.to] = source[i * axis.from];
               }
             });
}

// Copies input 0 to output 0.
template <typename U>
struct StridedCopyBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    CopyAlong(ctx.state<StridedLoop>(), ctx.in(0).as<U>(), ctx.out(0).as<U>());
  }
};

inline Kernel StridedCopyKernel(DType dtype, const StridedLoop& loop) {
  return DispatchRaw(dtype, [&](auto u) -> Kernel {
    return WithState(Best<StridedCopyBody<decltype(u)>>(), loop);
  });
}

// Adds input 1, a gradient, up in output 0; elements of the output may occur many times or never.
template <typename T>
struct StridedAddBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    Tensor& grad = ctx.out(0);
    if (grad.numel > 0) std::memset(grad.data, 0, grad.bytes());
    const T* dout = ctx.in(1).as<T>();
    T* dx = grad.as<T>();
    ForEachRun(ctx.state<StridedLoop>(),
               [&](int64_t from, int64_t to, const StridedLoop::Axis& axis) OPSTEP_INLINE_LAMBDA {
                 const T* d = dout + from;
                 T* target = dx + to;
                 if (axis.to == 0) {
                   const auto at = [&](int64_t i) OPSTEP_INLINE_LAMBDA { return d[i * axis.from]; };
                   *target = Plus(*target, SumRun<T>(axis.size, at));
                 } else if (axis.from == 1 && axis.to == 1) {
#pragma GCC ivdep
                   for (int64_t i = 0; i < axis.size; ++i) target[i] = Plus(target[i], d[i]);
                 } else {
                   for (int64_t i = 0; i < axis.size; ++i) {
                     target[i * axis.to] = Plus(target[i * axis.to], d[i * axis.from]);
                   }
                 }
               });
  }
};

inline Kernel StridedAddKernel(DType dtype, const StridedLoop& loop) {
  return DispatchFloats(dtype, [&](auto t) -> Kernel {
    return WithState(Best<StridedAddBody<decltype(t)>>(), loop);
  });
}

// "<type>_grad" of an op whose gradient reads X's shape and dout.
inline Op MoveGradOp(std::string type, std::string doc, std::string forward) {
  Op op(std::move(type));
  op.Doc(std::move(doc))
      .In("X", "input of " + forward, kFloats)
      .ShapeOnly()
      .In("dout", "gradient of out", kFloats)
      .Out("dX", "gradient of X", kFloats)
      .Shape(OutLikeInput<0>);
  return op;
}

}  // namespace opstep
