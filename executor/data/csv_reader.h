// CsvReader: a .csv file line by line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace opstep {

using CsvValues = std::vector<std::string_view>;

// The values of one line. Quoted values lose their quotes, and "" inside becomes "; such values are
// kept in `scratch`.
void SplitCsv(std::string_view line, char delimiter, CsvValues& values, std::string& scratch);

// A .csv file line by line, as Python's csv module reads it: quoted values may hold line ends,
// empty lines and a byte order mark are skipped.
class CsvReader {
 public:
  CsvReader(const std::string& path, char delimiter);

  const std::string& path() const { return file_.path(); }
  // The next line's values, good until the next call; false at the end of the file.
  bool Next(CsvValues& values);
  // The same without looking at the values.
  bool Skip();
  // The number of the latest line's first line in the file, from 1.
  uint64_t line() const { return line_; }

 private:
  // Finds the next line that is not empty and moves past it.
  bool Take(std::string_view& line);
  // The end of the line that begins at begin_; counts the lines in it.
  size_t FindEnd();
  bool Fill();

  const InputFile file_;
  const char delimiter_;
  uint64_t offset_ = 0;  // in the file, of the data after the buffer
  std::string buffer_;
  size_t begin_ = 0;  // of the unread data, in the buffer
  uint64_t line_ = 0;
  uint64_t next_line_ = 1;
  std::string scratch_;
};

}  // namespace opstep
