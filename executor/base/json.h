// JsonReader, which reads strict JSON, and JsonString, which writes a string of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace opstep {

// Reads JSON piece by piece, in the order in which the caller expects it, so that a hostile text
// can only make the caller build what it expects. Strict: RFC 8259, valid UTF-8.
class JsonReader {
 public:
  // `what` begins the error sentences: "'w.safetensors' has a bad header".
  JsonReader(std::string_view text, std::string what) : text_(text), what_(std::move(what)) {}

  // Consumes the next character that is not white space if it is `c`.
  bool Take(char c);
  void Need(char c);
  std::string String();
  // 0, 17; no sign, fraction or exponent.
  int64_t Natural();
  // Only white space is left.
  void End();

  // Members of an object or elements of an array, one call for each: `while (r.More(first, '}'))`.
  bool More(bool& first, char end);

 private:
  [[noreturn]] void Bad(std::string_view expected) const;
  void SkipSpace();
  uint32_t HexDigits();
  void Escape(std::string& out);
  void Utf8(std::string& out);

  const std::string_view text_;
  const std::string what_;
  size_t at_ = 0;
};

// In quotes, with the escapes that JSON requires.
std::string JsonString(std::string_view text);

}  // namespace opstep
