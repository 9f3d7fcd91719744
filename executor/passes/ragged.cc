// InheritedLod: tries a shape rule with several numbers of rows.
#include "passes/ragged.h"

#include <algorithm>
#include <array>

#include "ops/infer.h"

namespace opstep {
namespace {

// Numbers of rows to try, two for each kind of sequences: sizes that no op produces by itself.
constexpr std::array<std::array<int64_t, 2>, 4> kTried = {
    {{7919, 7927}, {7933, 7937}, {7949, 7951}, {7963, 7993}}};

bool SameSequences(const Lod& a, const Lod& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const proto::LodLevel& x, const proto::LodLevel& y) {
                      return x.offsets() == y.offsets();
                    });
}

// The different sequences that an op's inputs have, and which input has which: -1 for none.
struct Kinds {
  std::vector<Lod> lods;
  std::vector<int> of_input;

  Kinds(const Program& program, int block, const proto::OpDesc& op,
        const std::vector<VarType>& inputs) {
    const std::vector<Arg> args = InputArgs(op, block);
    for (size_t i = 0; i < args.size(); ++i) {
      const proto::VarDesc* var =
          args[i].name.empty() ? nullptr : program.FindVar(args[i].block, args[i].name);
      of_input.push_back(-1);
      if (var == nullptr || var->lod_size() == 0) continue;
      if (inputs[i].dims.rank() == 0 || inputs[i].dims[0] >= 0) continue;
      const auto known = std::find_if(
          lods.begin(), lods.end(), [&](const Lod& lod) { return SameSequences(lod, var->lod()); });
      of_input.back() = static_cast<int>(known - lods.begin());
      if (known == lods.end()) lods.push_back(var->lod());
    }
  }
};

// The outputs' numbers of rows when the inputs of kind k have rows(k); -1 for scalars.
template <typename Rows>
std::vector<int64_t> RowsOfOutputs(const proto::OpDesc& op, const Kinds& kinds,
                                   std::vector<VarType> types, Rows&& rows) {
  for (size_t i = 0; i < types.size(); ++i) {
    if (kinds.of_input[i] >= 0) types[i].dims[0] = rows(kinds.of_input[i]);
  }
  std::vector<int64_t> found;
  for (const VarType& type : InferTypes(op, types)) {
    found.push_back(type.dims.rank() > 0 ? type.dims[0] : -1);
  }
  return found;
}

// `apart`: inputs with different sequences get different numbers of rows. An op may reject that.
std::vector<Lod> Try(const proto::OpDesc& op, const Kinds& kinds, const std::vector<VarType>& types,
                     bool apart) {
  const auto tried = [&](int turn) {
    return RowsOfOutputs(op, kinds, types, [&](int k) { return kTried[apart ? k : 0][turn]; });
  };
  const std::vector<int64_t> first = tried(0), second = tried(1);
  std::vector<Lod> inherited(first.size());
  for (size_t i = 0; i < first.size(); ++i) {
    for (size_t k = 0; k < (apart ? kinds.lods.size() : 1); ++k) {
      if (first[i] == kTried[k][0] && second[i] == kTried[k][1]) inherited[i] = kinds.lods[k];
    }
  }
  return inherited;
}

}  // namespace

std::vector<Lod> InheritedLod(const Program& program, int block, const proto::OpDesc& op,
                              const std::vector<VarType>& inputs) {
  const Kinds kinds(program, block, op, inputs);
  const std::vector<Lod> none(OutputArgs(op, block).size());
  if (kinds.lods.empty()) return none;
  for (const bool apart : {true, false}) {
    if (apart && kinds.lods.size() > kTried.size()) continue;
    try {
      return Try(op, kinds, inputs, apart);
    } catch (const Error&) {
      // The op needs other numbers of rows.
    }
  }
  return none;
}

}  // namespace opstep
