// read_npy: a reader of the rows of .npy and .npz files.
#include "data/npy_source.h"
#include "ops/readers/reader.h"

namespace opstep {
namespace {

struct State {
  std::vector<std::string> paths;
  std::vector<std::string> names;
};

void ReadNpy(KernelContext& ctx) {
  const State& state = ctx.state<State>();
  SetReader(ctx.out(0), std::make_shared<NpySource>(state.paths, state.names));
}

const bool kReadNpy =
    Op("read_npy")
        .Doc(
            "A reader of the rows of arrays, by their first axis. Each .npy file is a field; a "
            ".npz file has several. Arrays that are split over files follow one another.")
        .Required("paths", AttrType::kStrings,
                  "the files, all .npy or all .npz; with more .npy files than names, first those "
                  "with the first part of each field, then those with the second")
        .Attr(StringsAttr("names", {}),
              "the fields; of .npy files as they are called without their ending, of .npz files "
              "all that are in the first one, when empty")
        .Out("out", "the reader", kEvery)
        .Reader()
        .Role(OpRole::kSource)
        .SideEffect()
        .OwnTest()
        .Shape([](ShapeContext& ctx) {
          NpySource::Check(ctx.op().Strings("paths"), ctx.op().Strings("names"));
          ReaderShape(ctx);
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return WithState(ReadNpy, State{ctx.op().Strings("paths"), ctx.op().Strings("names")});
        })
        .Register();

}  // namespace
}  // namespace opstep
