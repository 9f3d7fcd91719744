// DType: sizes, names and sets of dtypes.
#include "base/dtype.h"

#include <array>

namespace opstep {
namespace {

struct Info {
  std::string_view name;
  size_t size;
};

constexpr std::array<Info, 11> kInfo = {{{"none", 0},
                                         {"float32", 4},
                                         {"float64", 8},
                                         {"float16", 2},
                                         {"bfloat16", 2},
                                         {"int8", 1},
                                         {"int16", 2},
                                         {"int32", 4},
                                         {"int64", 8},
                                         {"uint8", 1},
                                         {"bool", 1}}};

}  // namespace

size_t SizeOf(DType dtype) { return kInfo[static_cast<size_t>(dtype)].size; }

std::string_view NameOf(DType dtype) { return kInfo[static_cast<size_t>(dtype)].name; }

std::optional<DType> DTypeFromName(std::string_view name) {
  for (size_t i = 1; i < kInfo.size(); ++i) {
    if (kInfo[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::string DTypeSet::Names() const {
  std::string names;
  for (size_t i = 1; i < kInfo.size(); ++i) {
    if (!Has(static_cast<DType>(i))) continue;
    if (!names.empty()) names += ", ";
    names += kInfo[i].name;
  }
  return names;
}

}  // namespace opstep
