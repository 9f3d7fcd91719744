// read_csv: a reader of .csv files, line by line.
#include "data/csv_source.h"
#include "ops/readers/reader.h"

namespace opstep {
namespace {

struct State {
  std::vector<std::string> paths;
  std::vector<std::string> fields;
  std::string delimiter;
};

void ReadCsv(KernelContext& ctx) {
  const State& state = ctx.state<State>();
  SetReader(ctx.out(0), std::make_shared<CsvSource>(state.paths, state.fields, state.delimiter));
}

const bool kReadCsv =
    Op("read_csv")
        .Doc(
            "A reader of .csv files, line by line, one file after the other. The first line of "
            "each names the columns; those that make up fields must hold numbers.")
        .Required("paths", AttrType::kStrings, "the files")
        .Attr(StringsAttr("fields", {}),
              "a name, a type (float32) and the columns of each: 'x=a,b,c', 'label:int64', "
              "'y:float32[2, 2]=p,q,r,s'; a single column gives [] unless sizes are given; when "
              "empty, each column of the first file is one")
        .Attr(StringAttr("delimiter", ","), "the character between two values")
        .Out("out", "the reader", kEvery)
        .Reader()
        .Role(OpRole::kSource)
        .SideEffect()
        .OwnTest()
        .Shape([](ShapeContext& ctx) {
          OPSTEP_CHECK(!ctx.op().Strings("paths").empty(), "paths is empty: name a file");
          ParseCsvFields(ctx.op().Strings("fields"));
          CheckDelimiter(ctx.op().String("delimiter"));
          ReaderShape(ctx);
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const OpView& op = ctx.op();
          return WithState(
              ReadCsv, State{op.Strings("paths"), op.Strings("fields"), op.String("delimiter")});
        })
        .Register();

}  // namespace
}  // namespace opstep
