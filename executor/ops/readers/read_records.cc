// read_records: a reader of record files.
#include "data/record_source.h"
#include "ops/readers/reader.h"

namespace opstep {
namespace {

struct State {
  std::vector<std::string> paths;
  Damage damage;
};

const bool kReadRecords =
    Op("read_records")
        .Doc("Makes a reader of record files, one after the other.")
        .Required("paths", AttrType::kStrings, "the files, which have the same fields")
        .Attr(StringAttr("damaged", "fail"),
              "'fail', or 'skip' to leave out damaged records, and count them")
        .Out("out", "the reader", kEvery)
        .Reader()
        .Role(OpRole::kSource)
        .SideEffect()
        .OwnTest()
        .Shape([](ShapeContext& ctx) {
          DamageNamed(ctx.op().String("damaged"));
          ReaderShape(ctx);
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const auto run = [](KernelContext& ctx) {
            const State& state = ctx.state<State>();
            SetReader(ctx.out(0), std::make_shared<RecordFileSource>(state.paths, state.damage));
          };
          return WithState(
              run, State{ctx.op().Strings("paths"), DamageNamed(ctx.op().String("damaged"))});
        })
        .Register();

}  // namespace
}  // namespace opstep
