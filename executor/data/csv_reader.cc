// CsvReader: lines of a .csv file and the values in a line.
#include "data/csv_reader.h"

#include <algorithm>

#include "base/error.h"

namespace opstep {
namespace {

constexpr size_t kFirstRead = 4 << 10;
constexpr size_t kMostRead = 256 << 10;
// So that a quote which is never closed does not load the whole file into memory.
constexpr size_t kMaxLine = 16 << 20;
constexpr std::string_view kMark = "\xef\xbb\xbf";

bool EndsLine(char c) { return c == '\n' || c == '\r'; }

// The end of the value that begins at `at` with a quote; appends its text to `scratch`. Text after
// the closing quote also belongs to the value.
size_t TakeQuoted(std::string_view line, size_t at, char delimiter, std::string& scratch) {
  for (++at; at < line.size(); ++at) {
    if (line[at] == '"') {
      if (at + 1 >= line.size() || line[at + 1] != '"') break;
      ++at;
    }
    scratch += line[at];
  }
  const size_t end = std::min(line.find(delimiter, at), line.size());
  if (at < end) scratch += line.substr(at + 1, end - at - 1);
  return end;
}

}  // namespace

void SplitCsv(std::string_view line, char delimiter, CsvValues& values, std::string& scratch) {
  values.clear();
  scratch.clear();
  // Views into it must stay valid: it never needs more than this.
  scratch.reserve(line.size());
  for (size_t at = 0;; ++at) {
    size_t end = 0;
    if (at < line.size() && line[at] == '"') {
      const size_t begin = scratch.size();
      end = TakeQuoted(line, at, delimiter, scratch);
      values.push_back(std::string_view(scratch).substr(begin));
    } else {
      end = std::min(line.find(delimiter, at), line.size());
      values.push_back(line.substr(at, end - at));
    }
    at = end;
    if (at == line.size()) return;
  }
}

CsvReader::CsvReader(const std::string& path, char delimiter) : file_(path), delimiter_(delimiter) {
  if (Fill() && buffer_.starts_with(kMark)) begin_ = kMark.size();
}

bool CsvReader::Fill() {
  const uint64_t rest = file_.size() - offset_;
  if (rest == 0) return false;
  OPSTEP_CHECK(buffer_.size() - begin_ <= kMaxLine, "line ", next_line_, " of ", Quoted(path()),
               " has more than ", kMaxLine, " bytes; is a quote not closed?");
  const size_t wanted = std::clamp(2 * buffer_.size(), kFirstRead, kMostRead);
  const auto bytes = static_cast<size_t>(std::min<uint64_t>(rest, wanted));
  buffer_.erase(0, begin_);
  begin_ = 0;
  const size_t had = buffer_.size();
  buffer_.resize(had + bytes);
  file_.Read(offset_, buffer_.data() + had, bytes);
  offset_ += bytes;
  return true;
}

size_t CsvReader::FindEnd() {
  enum { kStart, kPlain, kQuoted, kClosed } state = kStart;
  line_ = next_line_;
  for (size_t length = 0;; ++length) {
    if (begin_ + length == buffer_.size() && !Fill()) {
      OPSTEP_CHECK(state != kQuoted, "line ", line_, " of ", Quoted(path()),
                   " opens a quote that is never closed");
      return begin_ + length;
    }
    const char c = buffer_[begin_ + length];
    if (state == kQuoted) {
      if (c == '"') state = kClosed;
      next_line_ += c == '\n';
    } else if (EndsLine(c)) {
      return begin_ + length;
    } else if (c == delimiter_) {
      state = kStart;
    } else if (c == '"' && (state == kStart || state == kClosed)) {
      state = kQuoted;
    } else {
      state = kPlain;
    }
  }
}

bool CsvReader::Take(std::string_view& line) {
  while (begin_ < buffer_.size() || Fill()) {
    size_t end = FindEnd();
    const size_t length = end - begin_;
    // After the line: \n, \r or both. The next byte may not be in the buffer yet.
    if (end + 1 >= buffer_.size() && Fill()) end = begin_ + length;
    line = std::string_view(buffer_).substr(begin_, length);
    if (end < buffer_.size()) ++next_line_;
    const bool both = buffer_.compare(end, 2, "\r\n") == 0;
    begin_ = std::min(end + (both ? 2 : 1), buffer_.size());
    if (length > 0) return true;
  }
  return false;
}

bool CsvReader::Next(CsvValues& values) {
  std::string_view line;
  if (!Take(line)) return false;
  SplitCsv(line, delimiter_, values, scratch_);
  return true;
}

bool CsvReader::Skip() {
  std::string_view line;
  return Take(line);
}

}  // namespace opstep
