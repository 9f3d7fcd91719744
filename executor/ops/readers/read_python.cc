// read_python: a reader of records from Python code.
#include "ops/readers/foreign_reader.h"
#include "ops/readers/reader.h"

namespace opstep {
namespace {

std::shared_ptr<Source> (*open_foreign)(int64_t number) = nullptr;

const bool kReadPython =
    Op("read_python")
        .Doc(
            "Makes a reader of records from Python code, in the process that made the program. In "
            "another process, replace it by a reader of files.")
        .Required("number", AttrType::kInt, "which of the process's readers")
        .Out("out", "the reader", kEvery)
        .Reader()
        .Role(OpRole::kSource)
        .SideEffect()
        .OwnTest()
        .Shape(ReaderShape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const auto run = [](KernelContext& ctx) {
            OPSTEP_CHECK(open_foreign != nullptr, "there is no Python in this process");
            SetReader(ctx.out(0), open_foreign(ctx.state<int64_t>()));
          };
          return WithState(run, ctx.op().Int("number"));
        })
        .Register();

}  // namespace

void SetForeignReaders(std::shared_ptr<Source> (*open)(int64_t number)) { open_foreign = open; }

}  // namespace opstep
