#include "data/record_source.h"
#include "ops/reader.h"

namespace opstep {
namespace {

const bool kReadRecords =
    Op("read_records")
        .Doc("Makes a reader of record files, one after the other. Damaged records are left out.")
        .Required("paths", AttrType::kStrings, "the files, which have the same fields")
        .Out("out", "the reader", kEvery)
        .Reader()
        .Role(OpRole::kSource)
        .SideEffect()
        .OwnTest()
        .Shape(ReaderShape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const auto run = [](KernelContext& ctx) {
            const auto& paths = ctx.state<std::vector<std::string>>();
            SetReader(ctx.out(0), std::make_shared<RecordFileSource>(paths));
          };
          return WithState(run, ctx.op().Strings("paths"));
        })
        .Register();

}  // namespace
}  // namespace opstep
