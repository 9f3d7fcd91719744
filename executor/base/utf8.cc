// Checks UTF-8.
#include "base/utf8.h"

#include <cstdint>

namespace opstep {

size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) -> uint32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return text.empty() ? 0 : 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  uint32_t code = lead & (0x7fu >> length);
  bool good = lead >= 0xc2 && lead <= 0xf4;
  for (size_t i = 1; i < length; ++i) {
    good = good && (byte(i) & 0xc0) == 0x80;
    code = code << 6 | (byte(i) & 0x3f);
  }
  // Not an overlong form, not half of a surrogate pair, not beyond the last character.
  good = good && !(length == 3 && code < 0x800) && !(length == 4 && code < 0x10000) &&
         !(code >= 0xd800 && code <= 0xdfff) && code <= 0x10ffff;
  return good ? length : 0;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace opstep
