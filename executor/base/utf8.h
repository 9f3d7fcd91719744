// UTF-8: the length of a character, and whether a text is valid.
#pragma once

#include <cstddef>
#include <string_view>

namespace opstep {

// The bytes of the character that the text begins with; 0 when that is not UTF-8.
size_t Utf8Length(std::string_view text);
bool IsUtf8(std::string_view text);

}  // namespace opstep
