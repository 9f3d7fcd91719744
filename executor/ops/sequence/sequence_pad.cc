// sequence_pad, sequence_unpad and sequence_mask: ragged tensors side by side and back.
#include "ops/sequence/sequences.h"

namespace opstep {
namespace {

// A padded tensor is [steps, sequences, …]: step t of sequence s is row t * sequences + s.
struct State {
  int64_t steps = 0, sequences = 0;
  // Elements of a row.
  int64_t width = 1;
  uint64_t pad = 0;
};

State MakeState(const Dims& padded) {
  return {padded[0], padded[1], ProductOf(padded, 2, padded.rank())};
}

// Calls f(row of the ragged tensor, row of the padded one).
template <typename F>
void ForEachRow(const State& state, const Tensor& offsets, int64_t rows, F&& f) {
  ForEachSequence(offsets, rows, [&](int64_t s, int64_t begin, int64_t end) {
    OPSTEP_CHECK(end - begin <= state.steps, "sequence ", s, " has ", end - begin,
                 " rows, but there are only ", state.steps, " steps");
    for (int64_t row = begin; row < end; ++row) f(row, (row - begin) * state.sequences + s);
  });
}

template <typename U>
void RunPad(KernelContext& ctx) {
  const State& state = ctx.state<State>();
  const U* x = ctx.in(0).as<U>();
  U* out = ctx.out(0).as<U>();
  std::fill_n(out, ctx.out(0).numel, static_cast<U>(state.pad));
  ForEachRow(state, ctx.in(1), ctx.in(0).dims[0], [&](int64_t row, int64_t padded) {
    CopyElements(x + row * state.width, out + padded * state.width, state.width);
  });
}

template <typename U>
void RunUnpad(KernelContext& ctx) {
  const State& state = ctx.state<State>();
  const U* x = ctx.in(0).as<U>();
  U* out = ctx.out(0).as<U>();
  ForEachRow(state, ctx.in(1), ctx.out(0).dims[0], [&](int64_t row, int64_t padded) {
    CopyElements(x + padded * state.width, out + row * state.width, state.width);
  });
}

void RunMask(KernelContext& ctx) {
  const State& state = ctx.state<State>();
  const Tensor& first = ctx.in(0);
  bool* out = ctx.out(0).as<bool>();
  std::fill_n(out, ctx.out(0).numel, false);
  ForEachRow(state, first, first.as<int64_t>()[state.sequences],
             [&](int64_t, int64_t padded) { out[padded] = true; });
  for (int i = 1; i < ctx.n_in() - 1; ++i) {
    for (int64_t s = 0; s <= state.sequences; ++s) {
      const int64_t a = first.as<int64_t>()[s], b = ctx.in(i).as<int64_t>()[s];
      OPSTEP_CHECK(a == b, "the sequences of inputs 0 and ", i, " differ in length: offsets[", s,
                   "] is ", a, " and ", b);
    }
  }
}

void PadShape(ShapeContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  RowCount(x, "X");
  const int64_t count = SequenceCount(ctx.in(1).dims);
  ctx.set_out(0, {ctx.in(0).dtype, WithFirst({RowCount(ctx.in(2).dims, "steps"), count}, x, 1)});
}

void UnpadShape(ShapeContext& ctx) {
  const Dims& x = ctx.in(0).dims;
  const int64_t count = SequenceCount(ctx.in(1).dims);
  OPSTEP_CHECK(x.rank() >= 2 && SizesAgree(x[1], count), "X is ", x.ToString(), " but there are ",
               count, " sequences: X must be [steps, sequences, …]");
  ctx.set_out(0, {ctx.in(0).dtype, WithFirst({RowCount(ctx.in(2).dims, "Y")}, x, 2)});
}

void MaskShape(ShapeContext& ctx) {
  const int n = ctx.n_in() - 1;
  OPSTEP_CHECK(n > 0, "it needs offsets");
  const int64_t count = SequenceCount(ctx.in(0).dims);
  for (int i = 1; i < n; ++i) {
    OPSTEP_CHECK(SizesAgree(SequenceCount(ctx.in(i).dims), count), "input 0 has ", count,
                 " sequences but input ", i, " has ", SequenceCount(ctx.in(i).dims));
  }
  ctx.set_out(0, {DType::kBool, {RowCount(ctx.in(n).dims, "steps"), count}});
}

const bool kSequencePad =
    Op("sequence_pad")
        .Doc("The sequences of a ragged tensor side by side, step by step, filled up at the end.")
        .In("X", "the rows of all sequences: [rows, …]", kEvery)
        .In("offsets", "[sequences + 1]: where each begins, and the number of rows", kOffsets)
        .In("steps", "[steps, …]: says how many steps out has; its values are not read", kEvery)
        .ShapeOnly()
        .Attr(FloatAttr("pad_value", 0.0), "the value after the end of a sequence")
        .Out("out", "[steps, sequences, …]", kEvery)
        .Shape(PadShape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          State state = MakeState(ctx.out(0).dims);
          state.pad = ElementBits(ctx.out(0).dtype, ctx.op().Float("pad_value"), "pad_value");
          return DispatchRaw(ctx.in(0).dtype, [&](auto u) -> Kernel {
            return WithState(RunPad<decltype(u)>, state);
          });
        })
        .Grad([](GradContext& g) {
          const OpView& op = g.op();
          g.Emit("sequence_unpad",
                 {{"X", {g.OutGrad("out")}},
                  {"offsets", {op.Input("offsets")}},
                  {"Y", {op.Input("X")}}},
                 {{"out", {g.InGrad("X")}}});
        })
        .Oracle(R"(
out = np.full((len(steps), len(offsets) - 1, *X.shape[1:]), pad_value, X.dtype)
for s, (a, b) in enumerate(zip(offsets, offsets[1:])): out[: b - a, s] = X[a:b]
out
)")
        .Sample("X=[7,3] offsets=int64[4]{rising:7} steps=int64[7]")
        .Sample("X=[7,17] offsets=int64[4]{rising:7} steps=int64[9] pad_value=1")
        .Sample("X=[6] offsets=int64[9]{rising:6} steps=int64[6]")
        .Sample("X=[4,2,2] offsets=int64[2]{rising:4} steps=int64[4]")
        .Sample("X=float32[4,2] offsets=int64[3]{rising:4} steps=int64[4] pad_value=-2.5")
        .Sample("X=[0,3] offsets=int64[3]{rising:0} steps=int64[0]")
        .Sample("X=[0,3] offsets=int64[1]{rising:0} steps=int64[2]")
        .Register();

const bool kSequenceUnpad =
    Op("sequence_unpad")
        .Doc("The inverse of sequence_pad: a ragged tensor without the padding.")
        .In("X", "[steps, sequences, …]", kEvery)
        .In("offsets", "[sequences + 1]: where each sequence begins, and the number of rows",
            kOffsets)
        .In("Y", "[rows, …]: says how many rows there are; its values are not read", kEvery)
        .ShapeOnly()
        .Out("out", "the rows of all sequences: [rows, …]", kEvery)
        .Shape(UnpadShape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchRaw(ctx.in(0).dtype, [&](auto u) -> Kernel {
            return WithState(RunUnpad<decltype(u)>, MakeState(ctx.in(0).dims));
          });
        })
        .Grad([](GradContext& g) {
          const OpView& op = g.op();
          g.Emit("sequence_pad",
                 {{"X", {g.OutGrad("out")}},
                  {"offsets", {op.Input("offsets")}},
                  {"steps", {op.Input("X")}}},
                 {{"out", {g.InGrad("X")}}});
        })
        .Oracle(R"(
parts = [X[: b - a, s] for s, (a, b) in enumerate(zip(offsets, offsets[1:]))]
np.concatenate([np.empty((0, *X.shape[2:]), X.dtype), *parts])
)")
        .Sample("X=[7,3,2] offsets=int64[4]{rising:7} Y=float32[7,5]")
        .Sample("X=[9,2,17] offsets=int64[3]{rising:6} Y=int64[6]")
        .Sample("X=[4,5] offsets=int64[6]{rising:4} Y=float32[4]")
        .Sample("X=[0,2,3] offsets=int64[3]{rising:0} Y=float32[0]")
        .Sample("X=[2,0,3] offsets=int64[1]{rising:0} Y=float32[0]")
        .Register();

const bool kSequenceMask =
    Op("sequence_mask")
        .Doc("Where padded sequences have a step: true until a sequence has ended.")
        .In("offsets",
            "[sequences + 1] each: where each sequence begins; of several ragged tensors, whose "
            "sequences must be of the same lengths",
            kOffsets)
        .Variadic()
        .In("steps", "[steps, …]: says how many steps out has; its values are not read", kEvery)
        .ShapeOnly()
        .Out("out", "[steps, sequences]", kBools)
        .Shape(MaskShape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return WithState(RunMask, MakeState(ctx.out(0).dims));
        })
        .Oracle("np.arange(len(steps))[:, None] < np.diff(offsets[0])")
        .Sample("offsets=int64[4]{rising:7} steps=int64[7]")
        .Sample("offsets=int64[9]{rising:6} steps=float32[8,2]")
        .Sample("offsets=int64[3]{rising:0} offsets=int64[3]{rising:0} steps=int64[0]")
        .Register();

}  // namespace
}  // namespace opstep
