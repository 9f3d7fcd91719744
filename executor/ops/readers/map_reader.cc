// map_reader: changes each record of a reader by the ops of a block.
#include "ops/lib/block_shape.h"
#include "ops/readers/reader.h"

namespace opstep {
namespace {

// The results of a block for each record of another source. The block runs separately from the
// program, so that a prefetching reader can run it on its thread.
class MapSource final : public Source {
 public:
  MapSource(std::shared_ptr<Source> from, std::shared_ptr<DetachedBlock> block,
            std::vector<SourceField> fields)
      : from_(std::move(from)), block_(std::move(block)), fields_(std::move(fields)) {}
  const std::vector<SourceField>& fields() const override { return fields_; }
  void Restart(uint64_t pass) override { from_->Restart(pass); }
  bool Next(SourceRecord& record) override {
    SourceRecord given;
    if (!from_->Next(given)) return false;
    record = block_->Run(given);
    return true;
  }
  uint64_t Skip(uint64_t count) override { return from_->Skip(count); }
  int64_t size() const override { return from_->size(); }
  uint64_t left_out() const override { return from_->left_out(); }

 private:
  const std::shared_ptr<Source> from_;
  const std::shared_ptr<DetachedBlock> block_;
  const std::vector<SourceField> fields_;
};

struct State {
  int block;
  Names values, results, fields;
  std::vector<VarType> types;
};

void Run(KernelContext& ctx) {
  const State& s = ctx.state<State>();
  const std::shared_ptr<Source> from = TakeReader(ctx);
  OPSTEP_CHECK(from->fields().size() == s.values.size(), "the records have ", from->fields().size(),
               " values but the block takes ", s.values.size());
  std::vector<SourceField> fields;
  for (size_t i = 0; i < s.fields.size(); ++i) fields.push_back({s.fields[i], s.types[i]});
  SetReader(ctx.out(ctx.n_out() - 1),
            std::make_shared<MapSource>(from, ctx.runner().Detach(s.block, s.values, s.results),
                                        std::move(fields)));
}

const bool kMapReader =
    Op("map_reader")
        .Doc("Changes each record by the ops of a block, which reads nothing else.")
        .In("reader", "gives the records", kEvery)
        .Reader()
        .In("results", "of the block: the values of the changed record", kEvery)
        .Variadic()
        .OfBlock("block")
        .Required("block", AttrType::kBlock, "the ops for one record")
        .Required("fields", AttrType::kStrings, "the names of the results")
        .Out("values", "handed to the block: the values of a record", kEvery)
        .Variadic()
        .OfBlock("block")
        .Out("out", "gives the changed records", kEvery)
        .Reader()
        .SideEffect()
        .ShapesBlocks()
        .OwnTest()
        .Shape([](ShapeContext& ctx) {
          OPSTEP_CHECK(ctx.op().Strings("fields").size() == ctx.op().Inputs("results").size() &&
                           !ctx.op().Strings("fields").empty(),
                       "there are ", ctx.op().Strings("fields").size(), " names for ",
                       ctx.op().Inputs("results").size(),
                       " results: each result is a field, and there is ", "one at least");
          ctx.set_out(ctx.n_out() - 1, {DType::kUInt8, {}});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const OpView& op = ctx.op();
          State state{op.Block("block"),
                      op.Outputs("values"),
                      op.Inputs("results"),
                      op.Strings("fields"),
                      {}};
          for (int i = 1; i < ctx.n_in(); ++i) {
            OPSTEP_CHECK(ctx.in(i).dtype != DType::kNone,
                         "it cannot stand in the block of a loop over a reader: put it before");
            state.types.push_back(ctx.in(i));
          }
          return WithState(Run, std::move(state));
        })
        .Register();

}  // namespace
}  // namespace opstep
