// JsonReader: strict JSON, piece by piece.
#include "base/json.h"

#include <charconv>

#include "base/error.h"
#include "base/utf8.h"

namespace opstep {
namespace {

void AppendUtf8(std::string& out, uint32_t code) {
  const auto more = [&](int shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | code >> 6);
    more(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | code >> 12);
    more(6), more(0);
  } else {
    out += static_cast<char>(0xf0 | code >> 18);
    more(12), more(6), more(0);
  }
}

}  // namespace

void JsonReader::Bad(std::string_view expected) const {
  Fail(what_, ": ", expected, " expected at byte ", at_);
}

void JsonReader::SkipSpace() {
  constexpr std::string_view kSpace = " \t\n\r";
  while (at_ < text_.size() && kSpace.find(text_[at_]) != std::string_view::npos) ++at_;
}

bool JsonReader::Take(char c) {
  SkipSpace();
  if (at_ >= text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

void JsonReader::Need(char c) {
  if (!Take(c)) Bad(Cat("'", c, "'"));
}

bool JsonReader::More(bool& first, char end) {
  if (Take(end)) return false;
  if (!first) Need(',');
  first = false;
  return true;
}

void JsonReader::End() {
  SkipSpace();
  if (at_ < text_.size()) Bad("the end");
}

int64_t JsonReader::Natural() {
  SkipSpace();
  if (at_ >= text_.size()) Bad("a number");
  int64_t value = 0;
  const char* begin = text_.data() + at_;
  const auto [next, error] = std::from_chars(begin, text_.data() + text_.size(), value);
  const bool leading_zero = *begin == '0' && next - begin > 1;
  if (error != std::errc() || value < 0 || *begin == '-' || leading_zero)
    Bad("a whole number of 0 or more");
  at_ += static_cast<size_t>(next - begin);
  return value;
}

std::string JsonReader::String() {
  if (!Take('"')) Bad("a string");
  std::string out;
  while (true) {
    if (at_ >= text_.size()) Bad("the end of a string");
    const auto c = static_cast<unsigned char>(text_[at_]);
    if (c == '"') {
      ++at_;
      return out;
    }
    if (c < 0x20) Bad("a printable character");
    if (c == '\\') {
      ++at_;
      Escape(out);
    } else if (c < 0x80) {
      out += static_cast<char>(c);
      ++at_;
    } else {
      Utf8(out);
    }
  }
}

void JsonReader::Escape(std::string& out) {
  const char c = at_ < text_.size() ? text_[at_] : '\0';
  constexpr std::string_view kFrom = "\"\\/bfnrt";
  constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
  if (const size_t i = kFrom.find(c); i != std::string_view::npos) {
    out += kTo[i];
    ++at_;
    return;
  }
  if (c != 'u') Bad("an escape of JSON");
  ++at_;
  uint32_t code = HexDigits();
  if (code >= 0xd800 && code < 0xdc00 && text_.substr(at_, 2) == "\\u") {
    at_ += 2;
    const uint32_t low = HexDigits();
    if (low < 0xdc00 || low > 0xdfff) Bad("the second half of a character");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  if (code >= 0xd800 && code <= 0xdfff) Bad("a whole character");
  AppendUtf8(out, code);
}

uint32_t JsonReader::HexDigits() {
  uint32_t code = 0;
  const std::string_view digits = text_.substr(at_, 4);
  const char* end = digits.data() + digits.size();
  const auto [next, error] = std::from_chars(digits.data(), end, code, 16);
  if (error != std::errc() || next != end || digits.size() != 4 || digits[0] == '-')
    Bad("four hexadecimal digits");
  at_ += 4;
  return code;
}

void JsonReader::Utf8(std::string& out) {
  const size_t length = Utf8Length(text_.substr(at_));
  if (length == 0) Bad("UTF-8");
  out.append(text_.substr(at_, length));
  at_ += length;
}

std::string JsonString(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace opstep
