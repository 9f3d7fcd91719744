// batch_reader, shuffle_reader, repeat_reader and prefetch_reader: readers made from readers.
// Each takes over its source.
#include "data/stages.h"
#include "ops/readers/reader.h"

namespace opstep {
namespace {

struct Batch {
  int64_t size;
  bool drop_last;
};

const bool kBatchReader =
    Op("batch_reader")
        .Doc(
            "Puts records together. A value whose first size differs from record to record becomes "
            "ragged.")
        .In("reader", "gives the records", kEvery)
        .Reader()
        .Required("size", AttrType::kInt, "how many records a batch has")
        .Attr(BoolAttr("drop_last", false), "leave out a batch that is not full")
        .Out("out", "gives the batches", kEvery)
        .Reader()
        .SideEffect()
        .OwnTest()
        .Shape(ReaderShape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const auto run = [](KernelContext& ctx) {
            const Batch& batch = ctx.state<Batch>();
            SetReader(ctx.out(0),
                      std::make_shared<BatchSource>(TakeReader(ctx), batch.size, batch.drop_last));
          };
          return WithState(run, Batch{ctx.op().Int("size"), ctx.op().Bool("drop_last")});
        })
        .Register();

struct Shuffle {
  int64_t buffer;
  int64_t seed;
};

const bool kShuffleReader =
    Op("shuffle_reader")
        .Doc(
            "Gives records in a random order: each is drawn from the records in a buffer. The "
            "order differs in each pass and is the same in each run.")
        .In("reader", "gives the records", kEvery)
        .Reader()
        .Required("buffer", AttrType::kInt, "how many records are drawn from")
        .Attr(IntAttr("seed", 0), "another seed gives other orders")
        .Out("out", "gives them in another order", kEvery)
        .Reader()
        .SideEffect()
        .OwnTest()
        .Shape(ReaderShape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const auto run = [](KernelContext& ctx) {
            const Shuffle& shuffle = ctx.state<Shuffle>();
            SetReader(ctx.out(0),
                      std::make_shared<ShuffleSource>(TakeReader(ctx), shuffle.buffer,
                                                      static_cast<uint64_t>(shuffle.seed)));
          };
          return WithState(run, Shuffle{ctx.op().Int("buffer"), ctx.op().Int("seed")});
        })
        .Register();

template <typename Stage>
void RunStage(KernelContext& ctx) {
  SetReader(ctx.out(0), std::make_shared<Stage>(TakeReader(ctx), ctx.state<int64_t>()));
}

const bool kRepeatReader = Op("repeat_reader")
                               .Doc("Goes through the records several times, as one pass.")
                               .In("reader", "gives the records of a pass", kEvery)
                               .Reader()
                               .Attr(IntAttr("times", 0), "how often; 0: forever")
                               .Out("out", "gives the records of all passes", kEvery)
                               .Reader()
                               .SideEffect()
                               .OwnTest()
                               .Shape(ReaderShape)
                               .Prepare([](const PrepareContext& ctx) {
                                 return WithState(RunStage<RepeatSource>, ctx.op().Int("times"));
                               })
                               .Register();

const bool kPrefetchReader =
    Op("prefetch_reader")
        .Doc("Reads ahead on a separate thread while the program computes.")
        .In("reader", "gives the records", kEvery)
        .Reader()
        .Attr(IntAttr("depth", 2), "how many records may wait")
        .Out("out", "gives the same records", kEvery)
        .Reader()
        .SideEffect()
        .OwnTest()
        .Shape(ReaderShape)
        .Prepare([](const PrepareContext& ctx) {
          return WithState(RunStage<PrefetchSource>, ctx.op().Int("depth"));
        })
        .Register();

}  // namespace
}  // namespace opstep
