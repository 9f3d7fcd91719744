// The places in a tensor given by a tensor of indices, to gather from and to scatter to.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "ops/lib/dispatch.h"
#include "ops/lib/strided_copy.h"

namespace opstep {

inline constexpr DTypeSet kIndices(DType::kInt32, DType::kInt64);

// Calls f with the indices in their own type.
template <typename F>
OPSTEP_INLINE void WithIndices(const Tensor& indices, F&& f) {
  if (indices.dtype == DType::kInt64) {
    f(indices.as<int64_t>());
  } else {
    f(indices.as<int32_t>());
  }
}

[[noreturn]] [[gnu::noinline]] inline void RefuseIndex(const Tensor& indices, int64_t i,
                                                       int64_t value, int64_t size, int axis) {
  std::string place;
  for (int d = indices.dims.rank() - 1; d >= 0; --d) {
    place = Cat(i % indices.dims[d], place.empty() ? "" : ", ", place);
    i /= indices.dims[d];
  }
  Fail("indices[", place, "] is ", value, " but axis ", axis, " of X has size ", size,
       size == 0 ? ": it has no elements" : Cat(": indices run from ", -size, " to ", size - 1));
}

// Index i as a position on an axis of X: negative indices count from the end, indices outside are
// an error.
template <typename I>
OPSTEP_INLINE int64_t PositionOf(const Tensor& indices, const I* values, int64_t i, int64_t size,
                                 int axis) {
  const int64_t value = values[i];
  const int64_t position = value < 0 ? value + size : value;
  if (static_cast<uint64_t>(position) >= static_cast<uint64_t>(size)) [[unlikely]]
    RefuseIndex(indices, i, value, size, axis);
  return position;
}

// Each index replaces the position along one axis; places are single elements.
struct ElementLookup {
  // Over the indices and, along all axes except that one, X.
  StridedLoop loop;
  int axis = 0;
  int64_t size = 0, stride = 0;

  static constexpr bool kSlices = false;
  int64_t slice() const { return 1; }

  // Calls f(k, place) with the number of the index and the offset in X.
  template <typename F>
  OPSTEP_INLINE void ForEach(const Tensor& indices, F&& f) const {
    WithIndices(indices, [&](const auto* values) OPSTEP_INLINE_LAMBDA {
      ForEachRun(loop,
                 [&](int64_t k, int64_t base, const StridedLoop::Axis& run) OPSTEP_INLINE_LAMBDA {
                   for (int64_t i = 0; i < run.size; ++i) {
                     const int64_t number = k + i * run.from;
                     const int64_t position = PositionOf(indices, values, number, size, axis);
                     f(number, base + i * run.to + position * stride);
                   }
                 });
    });
  }
};

inline void CheckElementIndices(const Dims& x, const Dims& indices, int axis) {
  bool fits = x.rank() == indices.rank();
  for (int i = 0; fits && i < x.rank(); ++i) {
    fits = i == axis || x[i] < 0 || indices[i] < 0 || indices[i] <= x[i];
  }
  OPSTEP_CHECK(fits, "X is ", x.ToString(), " but indices is ", indices.ToString(),
               ": it must have the same number of axes and, except for axis ", axis,
               ", lie inside X");
}

inline ElementLookup MakeElementLookup(int axis, const Dims& x, const Dims& indices) {
  const Strides from = DenseStrides(indices), to = DenseStrides(x);
  ElementLookup lookup{.loop = {}, .axis = axis, .size = x[axis], .stride = to[axis]};
  for (int i = 0; i < x.rank(); ++i) {
    lookup.loop.Add(indices[i], from[i], i == axis ? 0 : to[i]);
  }
  return lookup;
}

// Rows of indices, each the leading part of a position in X (after batch axes that both share);
// places are slices of X.
struct RowLookup {
  int64_t batches = 1, batch_stride = 0, rows = 0;
  int first = 0, depth = 0;
  std::array<int64_t, Dims::kMaxRank> size{}, stride{};
  int64_t slice_size = 1;

  static constexpr bool kSlices = true;
  int64_t slice() const { return slice_size; }

  template <typename F>
  OPSTEP_INLINE void ForEach(const Tensor& indices, F&& f) const {
    WithIndices(indices, [&](const auto* values) OPSTEP_INLINE_LAMBDA {
      int64_t next = 0;
      for (int64_t b = 0; b < batches; ++b) {
        for (int64_t row = 0; row < rows; ++row) {
          int64_t place = b * batch_stride;
          for (int d = 0; d < depth; ++d) {
            place += PositionOf(indices, values, next++, size[d], first + d) * stride[d];
          }
          f(b * rows + row, place);
        }
      }
    });
  }
};

// The kernel `Body::Run` with a Lookup: single elements are not vectorised.
template <typename Lookup, typename Body>
KernelFn BestFor() {
  if constexpr (Lookup::kSlices) {
    return Best<Body>();
  } else {
    return RunBaseline<Body>;
  }
}

// The shape of a slice at a place; `indices` gives its depth.
inline Dims RowLookupShape(const Dims& x, const Dims& indices, int64_t batch_dims) {
  OPSTEP_CHECK(indices.rank() > 0, "indices is a single number: its last axis must name a place");
  const int last = indices.rank() - 1;
  const int64_t depth = indices[last];
  OPSTEP_CHECK(depth >= 0, "indices is ", indices.ToString(),
               ": its last size must be known, because the shape of out depends on it");
  OPSTEP_CHECK(batch_dims >= 0 && batch_dims < indices.rank() && batch_dims <= x.rank(),
               "batch_dims is ", batch_dims, " but indices is ", indices.ToString(), " and X is ",
               x.ToString());
  OPSTEP_CHECK(batch_dims + depth <= x.rank(), "indices is ", indices.ToString(), ": rows of ",
               depth, " indices behind ", batch_dims, " batch axes are too long for X, which is ",
               x.ToString());
  Dims out;
  for (int i = 0; i < last; ++i) {
    int64_t size = indices[i];
    if (i < batch_dims) {
      OPSTEP_CHECK(SizesAgree(size, x[i]), "X is ", x.ToString(), " but indices is ",
                   indices.ToString(), ": batch axis ", i, " differs");
      size = size < 0 ? x[i] : size;
    }
    out.push_back(size);
  }
  for (int i = static_cast<int>(batch_dims + depth); i < x.rank(); ++i) out.push_back(x[i]);
  return out;
}

inline RowLookup MakeRowLookup(int batch_dims, const Dims& x, const Dims& indices) {
  const int last = indices.rank() - 1;
  RowLookup lookup{.batches = ProductOf(x, 0, batch_dims),
                   .batch_stride = ProductOf(x, batch_dims, x.rank()),
                   .rows = ProductOf(indices, batch_dims, last),
                   .first = batch_dims,
                   .depth = static_cast<int>(indices[last])};
  const Strides strides = DenseStrides(x);
  for (int d = 0; d < lookup.depth; ++d) {
    lookup.size[d] = x[batch_dims + d];
    lookup.stride[d] = strides[batch_dims + d];
  }
  lookup.slice_size = ProductOf(x, batch_dims + lookup.depth, x.rank());
  return lookup;
}

// out = the elements of X at the places. Inputs X, indices.
template <typename Lookup, typename U>
void RunTake(KernelContext& ctx) {
  const Lookup& lookup = ctx.state<Lookup>();
  const U* x = ctx.in(0).as<U>();
  U* out = ctx.out(0).as<U>();
  const int64_t n = lookup.slice();
  lookup.ForEach(ctx.in(1), [&](int64_t k, int64_t place)
                                OPSTEP_INLINE_LAMBDA { CopyElements(x + place, out + k * n, n); });
}

template <typename Lookup>
Kernel TakeKernel(DType dtype, const Lookup& lookup) {
  return DispatchRaw(
      dtype, [&](auto u) -> Kernel { return WithState(RunTake<Lookup, decltype(u)>, lookup); });
}

// dX = dout summed at the places. Inputs X (its shape), indices, dout.
template <typename Lookup, typename T>
struct TakeGradBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const Lookup& lookup = ctx.state<Lookup>();
    const T* dout = ctx.in(2).as<T>();
    Tensor& grad = ctx.out(0);
    if (grad.numel > 0) std::memset(grad.data, 0, grad.bytes());
    T* dx = grad.as<T>();
    const int64_t n = lookup.slice();
    lookup.ForEach(ctx.in(1), [&](int64_t k, int64_t place) OPSTEP_INLINE_LAMBDA {
      T* to = dx + place;
      const T* from = dout + k * n;
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) to[i] = Plus(to[i], from[i]);
    });
  }
};

template <typename Lookup>
Kernel TakeGradKernel(DType dtype, const Lookup& lookup) {
  return DispatchFloats(dtype, [&](auto t) -> Kernel {
    return WithState(BestFor<Lookup, TakeGradBody<Lookup, decltype(t)>>(), lookup);
  });
}

// "<type>_grad" of an op that gathers.
inline Op TakeGradOp(std::string type, const std::string& forward) {
  Op op(std::move(type));
  op.Doc("Gradient of " + forward + ": dout, added up where it came from.")
      .In("X", "input of " + forward, kFloats)
      .ShapeOnly()
      .In("indices", "as in " + forward, kIndices)
      .In("dout", "gradient of out", kFloats)
      .Out("dX", "gradient of X", kFloats)
      .Shape(OutLikeInput<0>);
  return op;
}

}  // namespace opstep
