// save and save_combined: tensors written to .npy and safetensors files at each run.
#include "base/npy.h"
#include "base/safetensors.h"
#include "ops/op.h"

namespace opstep {
namespace {

struct State {
  std::string path;
  std::vector<std::string> keys;
  bool overwrite;
};

void Save(KernelContext& ctx) {
  const State& state = ctx.state<State>();
  if (state.path.ends_with(".npy")) {
    WriteNpy(state.path, ctx.in(0), state.overwrite);
  } else {
    WriteSafetensors(state.path, {{state.keys[0], ctx.in(0)}}, state.overwrite);
  }
}

void SaveCombined(KernelContext& ctx) {
  const State& state = ctx.state<State>();
  std::vector<NamedTensor> tensors;
  for (int i = 0; i < ctx.n_in(); ++i) tensors.push_back({state.keys[i], ctx.in(i)});
  WriteSafetensors(state.path, std::move(tensors), state.overwrite);
}

const bool kSave =
    Op("save")
        .Doc("Writes a tensor to a file whenever it runs. The file appears whole or not at all.")
        .In("X", "the tensor", kEvery)
        .Required("path", AttrType::kString,
                  "the file; with the ending .npy in NumPy's format, else as safetensors")
        .Attr(StringAttr("key", ""), "the tensor's name in a safetensors file; X's own when empty")
        .Attr(BoolAttr("overwrite", true), "may a file that exists be replaced?")
        .Role(OpRole::kFile)
        .SideEffect()
        .OwnTest()
        .Shape([](ShapeContext& ctx) {
          OPSTEP_CHECK(!ctx.op().String("path").empty(), "path is empty: name a file");
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const OpView& op = ctx.op();
          const std::string& key = op.String("key");
          return WithState(
              Save,
              State{op.String("path"), {key.empty() ? op.Input("X") : key}, op.Bool("overwrite")});
        })
        .Register();

const bool kSaveCombined =
    Op("save_combined")
        .Doc(
            "Writes tensors to one safetensors file whenever it runs. The file appears whole or "
            "not at all.")
        .In("X", "the tensors", kEvery)
        .Variadic()
        .Required("path", AttrType::kString, "the file")
        .Attr(StringsAttr("names", {}), "the tensors' names in it; those of X when empty")
        .Attr(BoolAttr("overwrite", true), "may a file that exists be replaced?")
        .Role(OpRole::kFile)
        .SideEffect()
        .OwnTest()
        .Shape([](ShapeContext& ctx) {
          OPSTEP_CHECK(!ctx.op().String("path").empty(), "path is empty: name a file");
          const size_t names = ctx.op().Strings("names").size();
          OPSTEP_CHECK(names == 0 || names == static_cast<size_t>(ctx.n_in()), "names has ", names,
                       " names for ", ctx.n_in(), " tensors");
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const OpView& op = ctx.op();
          std::vector<std::string> names = op.Strings("names");
          if (names.empty()) names = op.Inputs("X");
          return WithState(SaveCombined,
                           State{op.String("path"), std::move(names), op.Bool("overwrite")});
        })
        .Register();

}  // namespace
}  // namespace opstep
