// pad: adds margins to a tensor or cuts them off, in several modes, and its gradient.
#include "ops/grad/terms.h"
#include "ops/lib/strided_copy.h"

namespace opstep {
namespace {

enum class Mode { kConstant, kReflect, kEdge, kWrap };

Mode ModeOf(const OpView& op) {
  const std::string& name = op.String("mode");
  if (name == "constant") return Mode::kConstant;
  if (name == "reflect") return Mode::kReflect;
  if (name == "edge") return Mode::kEdge;
  OPSTEP_CHECK(name == "wrap", "mode is '", name, "': it must be constant, reflect, edge or wrap");
  return Mode::kWrap;
}

// The numbers of elements to add before and after each axis; negative ones are cut off.
struct Margins {
  std::array<int64_t, Dims::kMaxRank> before{}, after{};
};

Margins MarginsOf(const OpView& op, const Dims& x) {
  const std::vector<int64_t> pads = op.Ints("pads"), axes = op.Ints("axes");
  const size_t n = axes.empty() ? static_cast<size_t>(x.rank()) : axes.size();
  OPSTEP_CHECK(pads.size() == 2 * n, "pads names ", pads.size(), " numbers but X is ", x.ToString(),
               ": there must be one before and one behind for each of ", n, " axes");
  Margins margins;
  std::array<bool, Dims::kMaxRank> seen{};
  for (size_t i = 0; i < n; ++i) {
    const int axis = NormalizeAxis(axes.empty() ? static_cast<int64_t>(i) : axes[i], x, "X");
    OPSTEP_CHECK(!seen[axis], "axes names axis ", axis, " twice");
    seen[axis] = true;
    for (int64_t pad : {pads[i], pads[n + i]}) {
      OPSTEP_CHECK(pad > -(int64_t{1} << 31) && pad < int64_t{1} << 31, "pads holds ", pad,
                   ", which is too large");
    }
    margins.before[axis] = pads[i];
    margins.after[axis] = pads[n + i];
  }
  return margins;
}

// For each index along an axis of out the index in X, or -1.
std::vector<int64_t> Sources(Mode mode, int64_t size, int64_t before, int64_t after) {
  // Cut elements are removed before margins are added.
  const int64_t first = std::max<int64_t>(0, -before);
  const int64_t left = size - first - std::max<int64_t>(0, -after);
  std::vector<int64_t> sources;
  for (int64_t i = -std::max<int64_t>(0, before); i < left + std::max<int64_t>(0, after); ++i) {
    int64_t at = i;
    if (i < 0 || i >= left) {
      const int64_t period = mode == Mode::kReflect ? std::max<int64_t>(1, 2 * (left - 1)) : left;
      switch (mode) {
        case Mode::kConstant:
          sources.push_back(-1);
          continue;
        case Mode::kEdge:
          at = std::clamp<int64_t>(i, 0, left - 1);
          break;
        default:
          at = (i % period + period) % period;
          if (at >= left) at = period - at;
      }
    }
    sources.push_back(first + at);
  }
  return sources;
}

// Elements that are also adjacent in X; or, from -1, the constant.
struct Segment {
  int64_t from = 0, size = 0;
};

// Rows along the last axis that has margins, with all that lies inside of it.
struct State {
  uint64_t value = 0;
  int64_t row_size = 0;
  std::vector<Segment> row;
  // For the axes outside of it: offsets in X, or -1.
  std::vector<std::vector<int64_t>> outer;
};

State MakeState(const OpView& op, const Dims& x, DType dtype) {
  const Mode mode = ModeOf(op);
  const Margins margins = MarginsOf(op, x);
  const Strides strides = DenseStrides(x);
  int last = x.rank() - 1;
  while (last > 0 && margins.before[last] == 0 && margins.after[last] == 0) --last;
  State state;
  state.value = ElementBits(dtype, op.Float("constant_value"), "constant_value");
  if (x.rank() == 0) {
    state.row = {{0, 1}};
    state.row_size = 1;
    return state;
  }
  for (int i = 0; i < last; ++i) {
    state.outer.push_back(Sources(mode, x[i], margins.before[i], margins.after[i]));
    for (int64_t& offset : state.outer.back()) offset = offset < 0 ? -1 : offset * strides[i];
  }
  const int64_t unit = strides[last];
  for (int64_t index : Sources(mode, x[last], margins.before[last], margins.after[last])) {
    const int64_t from = index < 0 ? -1 : index * unit;
    state.row_size += unit;
    if (!state.row.empty()) {
      Segment& before = state.row.back();
      if (from < 0 ? before.from < 0 : before.from >= 0 && before.from + before.size == from) {
        before.size += unit;
        continue;
      }
    }
    state.row.push_back({from, unit});
  }
  return state;
}

// Calls f(offset of the row in X, or -1) for each row of out.
template <typename F>
OPSTEP_INLINE void ForEachRow(const State& state, F&& f) {
  const int rank = static_cast<int>(state.outer.size());
  for (const std::vector<int64_t>& offsets : state.outer) {
    if (offsets.empty()) return;
  }
  std::array<size_t, Dims::kMaxRank> index{};
  while (true) {
    int64_t base = 0;
    for (int d = 0; d < rank && base >= 0; ++d) {
      const int64_t offset = state.outer[d][index[d]];
      base = offset < 0 ? -1 : base + offset;
    }
    f(base);
    int d = rank - 1;
    for (; d >= 0; --d) {
      if (++index[d] < state.outer[d].size()) break;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

template <typename U>
void Run(KernelContext& ctx) {
  const State& state = ctx.state<State>();
  const U* x = ctx.in(0).as<U>();
  U* out = ctx.out(0).as<U>();
  const U value = static_cast<U>(state.value);
  ForEachRow(state, [&](int64_t base) {
    if (base < 0) {
      out = std::fill_n(out, state.row_size, value);
      return;
    }
    for (const Segment& segment : state.row) {
      if (segment.from < 0) {
        std::fill_n(out, segment.size, value);
      } else {
        CopyElements(x + base + segment.from, out, segment.size);
      }
      out += segment.size;
    }
  });
}

template <typename T>
struct GradBody {
  OPSTEP_INLINE static void Run(KernelContext& ctx) {
    const State& state = ctx.state<State>();
    Tensor& grad = ctx.out(0);
    if (grad.numel > 0) std::memset(grad.data, 0, grad.bytes());
    T* dx = grad.as<T>();
    const T* dout = ctx.in(1).as<T>();
    ForEachRow(state, [&](int64_t base) OPSTEP_INLINE_LAMBDA {
      for (const Segment& segment : state.row) {
        if (base >= 0 && segment.from >= 0) {
          T* to = dx + base + segment.from;
#pragma GCC ivdep
          for (int64_t i = 0; i < segment.size; ++i) to[i] = Plus(to[i], dout[i]);
        }
        dout += segment.size;
      }
    });
  }
};

void Shape(ShapeContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  const Mode mode = ModeOf(ctx.op());
  const Margins margins = MarginsOf(ctx.op(), x);
  ElementBits(ctx.in(0).dtype, ctx.op().Float("constant_value"), "constant_value");
  Dims out = x;
  for (int i = 0; i < x.rank(); ++i) {
    const int64_t before = margins.before[i], after = margins.after[i];
    if (x[i] < 0) continue;
    const int64_t left = x[i] + std::min<int64_t>(0, before) + std::min<int64_t>(0, after);
    OPSTEP_CHECK(left >= 0, "X is ", x.ToString(), ": pads ", before, " and ", after,
                 " cut off more than there is along axis ", i);
    OPSTEP_CHECK(left > 0 || mode == Mode::kConstant || (before <= 0 && after <= 0), "X is ",
                 x.ToString(), ": along axis ", i, " nothing is left to fill the margins with");
    out[i] = x[i] + before + after;
  }
  ctx.set_out(0, {ctx.in(0).dtype, out});
}

const bool kPad =
    Op("pad")
        .Doc("Adds margins to a tensor, or cuts them off.")
        .In("X", "any shape", kEvery)
        .Required("pads", AttrType::kInts,
                  "how many elements to add in front of each axis, then behind each axis; negative "
                  "ones are cut off")
        .Attr(StringAttr("mode", "constant"),
              "what the margins hold: constant, reflect (mirrored at the outermost elements), edge "
              "(the outermost elements) or wrap (the elements from the other end)")
        .Attr(FloatAttr("constant_value", 0.0), "for the mode constant")
        .Attr(IntsAttr("axes", {}), "the axes that pads applies to; none means all")
        .Out("out", "X with its margins", kEvery)
        .Shape(Shape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const DType dtype = ctx.in(0).dtype;
          State state = MakeState(ctx.op(), ctx.in(0).dims, dtype);
          return DispatchRaw(dtype, [&](auto u) -> Kernel {
            return WithState(Run<decltype(u)>, std::move(state));
          });
        })
        .Grad([](GradContext& g) { g.EmitGrad("pad_grad", {"X"}, {}, {"out"}, {"X"}); })
        .Oracle(R"(
names = axes or list(range(X.ndim))
before, after = [0] * X.ndim, [0] * X.ndim
for i, axis in enumerate(names):
    before[axis], after[axis] = pads[i], pads[len(names) + i]
cut = tuple(slice(max(0, -b), n - max(0, -a)) for b, a, n in zip(before, after, X.shape))
margins = [(max(0, b), max(0, a)) for b, a in zip(before, after)]
more = {"constant_values": X.dtype.type(constant_value)} if mode == "constant" else {}
np.pad(X[cut], margins, mode, **more) if X.ndim else X
)")
        .Sample("X=[3,17] pads=[1,2,0,3]")
        .Sample("X=[2,3,4] pads=[0,1,0,2,0,1] constant_value=1")
        .Sample("X=[2,4,3] pads=[1,2] axes=[-2]")
        .Sample("X=[2,3,4,2] pads=[2,1,0,3] axes=[2,1] mode=edge")
        .Sample("X=[4,5] pads=[2,3,1,2] mode=reflect")
        .Sample("X=[3] pads=[7,9] mode=reflect")
        .Sample("X=[1,3] pads=[2,0,1,1] mode=reflect")
        .Sample("X=[4,5] pads=[2,3,1,2] mode=wrap")
        .Sample("X=[3] pads=[7,9] mode=wrap")
        .Sample("X=[3,2,3] pads=[1,0,2,1,0,2] mode=edge")
        .Sample("X=[5,6] pads=[-1,2,-2,-1]")
        .Sample("X=[6,4] pads=[-2,1,3,-1] mode=reflect")
        .Sample("X=[5] pads=[-2,3] mode=wrap")
        .Sample("X=[4] pads=[-2,-2]")
        .Sample("X=[0,3] pads=[1,0,1,1]")
        .Sample("X=[2,0] pads=[3,0,1,0] mode=edge")
        .Sample("X=[] pads=[]")
        .Register();

const bool kPadGrad =
    MoveGradOp("pad_grad", "Gradient of pad: dout, added up where its elements came from.", "pad")
        .Attr(IntsAttr("pads", {}), "as in pad")
        .Attr(StringAttr("mode", "constant"), "as in pad")
        .Attr(FloatAttr("constant_value", 0.0), "as in pad")
        .Attr(IntsAttr("axes", {}), "as in pad")
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          State state = MakeState(ctx.op(), ctx.in(0).dims, ctx.in(0).dtype);
          return DispatchFloats(ctx.out(0).dtype, [&](auto t) -> Kernel {
            return WithState(Best<GradBody<decltype(t)>>(), std::move(state));
          });
        })
        .Grad([](GradContext& g) {
          Give(g, "dout",
               ForwardOp(g, {{"X", {OutGradient(g, "dX")}}}, "out",
                         {FloatAttr("constant_value", 0.0)}));
        })
        .Register();

}  // namespace
}  // namespace opstep
