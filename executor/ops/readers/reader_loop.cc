// reader_loop: runs a block for each record of a reader, and continues where it was interrupted.
#include "data/waiting.h"
#include "ops/lib/block_shape.h"
#include "ops/readers/reader.h"

namespace opstep {
namespace {

struct State {
  int block;
  int64_t steps;
  int n_values;
  int stop;  // among the inputs, or -1
};

// State held while the loop runs; released at any end.
class Holding {
 public:
  explicit Holding(KernelContext& ctx, int n_values) : ctx_(ctx), n_values_(n_values) {
    ctx_.runner().HoldInterrupts(true);
    before_ = SetWaitPoll(
        {[](void* runner) { static_cast<BlockRunner*>(runner)->Poll(); }, &ctx_.runner()});
  }
  ~Holding() {
    SetWaitPoll(before_);
    ctx_.runner().HoldInterrupts(false);
    // Releases the last batch's memory.
    for (int i = 0; i < n_values_; ++i) {
      ctx_.out(i).data = nullptr;
      ctx_.out(i).owner = nullptr;
    }
  }

 private:
  KernelContext& ctx_;
  const int n_values_;
  WaitPoll before_;
};

std::string Listed(const std::vector<SourceField>& fields) {
  std::string text;
  for (const SourceField& field : fields)
    text += Cat(text.empty() ? "" : ", ", field.name, " ", field.type.ToString());
  return text;
}

bool Stops(const Tensor& stop) {
  OPSTEP_CHECK(stop.numel == 1, "stop is ", stop.dims.ToString(), ": it must have one element");
  return *stop.as<bool>();
}

void Run(KernelContext& ctx) {
  const State& s = ctx.state<State>();
  const std::shared_ptr<Source> reader = ReaderOf(ctx.in(0));
  const int n_fields = s.n_values - 1;
  OPSTEP_CHECK(static_cast<int>(reader->fields().size()) == n_fields, "the reader gives ",
               Listed(reader->fields()), ": ", reader->fields().size(),
               " values, but the block takes ", n_fields);
  if (reader->used) reader->Restart(0);
  reader->used = true;
  int64_t step = 0;
  Tensor& kept = ctx.out(s.n_values);
  Tensor& total = ctx.out(s.n_values + 1);
  if (total) *total.as<int64_t>() = s.steps >= 0 ? s.steps : reader->size();
  // An interrupted loop continues with the record after the last finished one.
  const Holding holding(ctx, s.n_values);
  if (ctx.in(1)) {
    step = *ctx.in(1).as<int64_t>();
    OPSTEP_CHECK(step >= 0, "step is ", step, ": it must be 0 or more");
    reader->Skip(static_cast<uint64_t>(step));
  }
  Tensor count = Tensor::Allocate({DType::kInt64, {}});
  SourceRecord record;
  std::vector<VarType> types;
  while (s.steps < 0 || step < s.steps) {
    if (!reader->Next(record)) break;
    types.clear();
    for (const Tensor& value : record) types.push_back(value.type());
    types.push_back(count.type());
    ctx.runner().ShapeBlock(s.block, types);
    ctx.OpenBlock(s.block);
    *count.as<int64_t>() = step;
    for (int i = 0; i < n_fields; ++i) ctx.out(i) = std::move(record[i]);
    ctx.out(n_fields) = count;
    // A checkpoint at the end of the block counts this iteration as done.
    if (kept) *kept.as<int64_t>() = step + 1;
    try {
      ctx.RunBlock(s.block, static_cast<uint64_t>(step));
    } catch (...) {
      if (kept) *kept.as<int64_t>() = step;
      throw;
    }
    ++step;
    if (s.stop >= 0 && Stops(ctx.in(s.stop))) break;
    ctx.runner().Poll();
  }
  // The next run of the program starts from the beginning.
  if (kept) *kept.as<int64_t>() = 0;
  if (total) *total.as<int64_t>() = step;
  ctx.runner().Poll();
}

void Shape(ShapeContext& ctx) {
  const OpView& op = ctx.op();
  const int n = CountOf(op.Outputs("values"));
  OPSTEP_CHECK(n > 1, "it hands ", n,
               " values to its block: the values of a record and the number "
               "of the iteration are needed");
  const int stop = ctx.n_in() - 1;
  if (!op.Input("stop").empty() && ctx.in(stop).dtype != DType::kNone) {
    OPSTEP_CHECK(ctx.in(stop).dtype == DType::kBool, "stop is ", NameOf(ctx.in(stop).dtype),
                 ": it must be a bool");
    CheckOneElement(ctx.in(stop), "stop");
  }
  if (!op.Input("step").empty()) CheckOneElement(ctx.in(1), "step");
  if (!op.Input("total").empty()) CheckOneElement(ctx.in(2), "total");
  ctx.set_out(n, {DType::kInt64, {}});
  ctx.set_out(n + 1, {DType::kInt64, {}});
  KeepTypes(ctx, "written", n + 2, 3);
}

const bool kReaderLoop =
    Op("reader_loop")
        .Doc(
            "Runs a block for each record that a reader gives. An interrupted loop continues after "
            "the last finished iteration.")
        .In("reader", "gives the records", kEvery)
        .Reader()
        .In("step", "how many iterations are done already", DTypeSet(DType::kInt64))
        .Optional()
        .In("total", "what total_out is written to", DTypeSet(DType::kInt64))
        .Optional()
        .In("X", "variables from outside that the block reads or writes", kEvery)
        .Captures()
        .In("stop", "of the block: true ends the loop", kBools)
        .Optional()
        .OfBlock("block")
        .Required("block", AttrType::kBlock, "the ops of one iteration")
        .Attr(IntAttr("steps", -1), "how many iterations; -1 until the reader ends")
        .Attr(StringsAttr("shown", {}), "variables that show people the loop's progress")
        .Out("values", "handed to the block: the values of a record, the number of the iteration",
             kEvery)
        .Variadic()
        .OfBlock("block")
        .Out("step_out", "the same after each iteration, 0 at the end", DTypeSet(DType::kInt64))
        .Optional()
        .InplaceOf("step")
        .Out("total_out",
             "how many iterations there will be, -1 when that is not known; at the end, how many "
             "there were",
             DTypeSet(DType::kInt64))
        .Optional()
        .InplaceOf("total")
        .Out("written", "variables of X that the block writes", kEvery)
        .Captures()
        .Role(OpRole::kReaderLoop)
        .SideEffect()
        .ShapesBlocks()
        .OwnTest()
        .Shape(Shape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const OpView& op = ctx.op();
          return WithState(Run,
                           State{op.Block("block"), op.Int("steps"), CountOf(op.Outputs("values")),
                                 op.Input("stop").empty() ? -1 : ctx.n_in() - 1});
        })
        .Register();

}  // namespace
}  // namespace opstep
