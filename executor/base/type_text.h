// The type that a text such as "float32[2, 3]" means.
#pragma once

#include <optional>
#include <string_view>

#include "base/tensor.h"

namespace opstep {

// "float32[2, 3]", as VarType::ToString writes it; empty when the text is not a type.
std::optional<VarType> ParseType(std::string_view text);

}  // namespace opstep
