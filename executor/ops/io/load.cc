// load and load_combined: tensors read from .npy and safetensors files at each run.
#include "base/npy.h"
#include "base/safetensors.h"
#include "base/type_text.h"
#include "ops/lib/shape_rules.h"
#include "ops/op.h"

namespace opstep {
namespace {

struct State {
  std::string path;
  std::vector<std::string> keys;
};

void CheckType(const std::string& path, const std::string& key, const VarType& found,
               const VarType& wanted) {
  OPSTEP_CHECK(found == wanted, Quoted(path), " has ", key.empty() ? "" : Quoted(key) + " as ",
               found.ToString(), " but ", wanted.ToString(), " is wanted");
}

// In a file with one tensor the key may be empty.
std::string OnlyKey(const SafetensorsFile& file) {
  OPSTEP_CHECK(file.entries().size() == 1, Quoted(file.path()), " has ", file.entries().size(),
               " tensors: say with key which one is wanted");
  return file.entries().begin()->first;
}

void Load(KernelContext& ctx) {
  const State& state = ctx.state<State>();
  Tensor& out = ctx.out(0);
  if (state.path.ends_with(".npy")) {
    const NpyFile file(state.path);
    CheckType(state.path, "", file.type(), out.type());
    file.Read(out.data);
    return;
  }
  const SafetensorsFile file(state.path);
  const std::string key = state.keys[0].empty() ? OnlyKey(file) : state.keys[0];
  const SafetensorsFile::Entry& entry = file.Get(key);
  CheckType(state.path, key, entry.type, out.type());
  file.Read(entry, out.data);
}

void LoadCombined(KernelContext& ctx) {
  const State& state = ctx.state<State>();
  const SafetensorsFile file(state.path);
  // All is checked before anything is changed.
  for (int i = 0; i < ctx.n_out(); ++i)
    CheckType(state.path, state.keys[i], file.Get(state.keys[i]).type, ctx.out(i).type());
  for (int i = 0; i < ctx.n_out(); ++i) file.Read(file.Get(state.keys[i]), ctx.out(i).data);
}

const bool kLoad =
    Op("load")
        .Doc(
            "Reads a tensor from a file whenever it runs. The file must hold just that dtype and "
            "shape.")
        .Required("path", AttrType::kString,
                  "the file; with the ending .npy in NumPy's format, else safetensors")
        .Required("shape", AttrType::kInts, "sizes of the tensor")
        .Attr(DTypeAttr("dtype", DType::kFloat32), "its dtype")
        .Attr(StringAttr("key", ""),
              "its name in a safetensors file; not needed when it holds only one")
        .Out("out", "the tensor", kEvery)
        .Role(OpRole::kFile)
        // A file may change between two runs, so it is never a constant.
        .SideEffect()
        .OwnTest()
        .Shape([](ShapeContext& ctx) {
          OPSTEP_CHECK(!ctx.op().String("path").empty(), "path is empty: name a file");
          ctx.set_out(0, {ctx.op().DType("dtype"), DimsFromAttr(ctx.op(), "shape")});
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return WithState(Load, State{ctx.op().String("path"), {ctx.op().String("key")}});
        })
        .Register();

const bool kLoadCombined =
    Op("load_combined")
        .Doc(
            "Reads tensors from one safetensors file whenever it runs. Other tensors in the file "
            "are ignored.")
        .Required("path", AttrType::kString, "the file")
        .Required("types", AttrType::kStrings,
                  "dtype and shape of each tensor, such as float32[2, 3]")
        .Attr(StringsAttr("names", {}), "the tensors' names in it; those of out when empty")
        .Out("out", "the tensors", kEvery)
        .Variadic()
        .Role(OpRole::kFile)
        .SideEffect()
        .OwnTest()
        .Shape([](ShapeContext& ctx) {
          OPSTEP_CHECK(!ctx.op().String("path").empty(), "path is empty: name a file");
          const std::vector<std::string> types = ctx.op().Strings("types");
          const size_t names = ctx.op().Strings("names").size();
          const auto n = static_cast<size_t>(ctx.n_out());
          OPSTEP_CHECK(types.size() == n, "types has ", types.size(), " types for ", n, " tensors");
          OPSTEP_CHECK(names == 0 || names == n, "names has ", names, " names for ", n, " tensors");
          for (size_t i = 0; i < n; ++i) {
            const std::optional<VarType> type = ParseType(types[i]);
            OPSTEP_CHECK(type, "types holds ", Quoted(types[i]),
                         ": write for example float32[2, 3]");
            ctx.set_out(static_cast<int>(i), *type);
          }
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          std::vector<std::string> names = ctx.op().Strings("names");
          if (names.empty()) names = ctx.op().Outputs("out");
          return WithState(LoadCombined, State{ctx.op().String("path"), std::move(names)});
        })
        .Register();

}  // namespace
}  // namespace opstep
