// CsvReader: a .csv file line by line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace opstep {

using CsvValues = std::vector<std::string_view>;

// The values of one line. Those in quotes lose them, "" inside them becomes "; such values are kept
// in `scratch`.
void SplitCsv(std::string_view line, char delimiter, CsvValues& values, std::string& scratch);

// A .csv file line by line, as Python's csv module reads it: quoted values may hold line ends, an
// empty line is none, a byte order mark is passed over.
class CsvReader {
 public:
  CsvReader(const std::string& path, char delimiter);

  const std::string& path() const { return file_.path(); }
  // The next line's values, good until the next call; false at the end of the file.
  bool Next(CsvValues& values);
  // The same without looking at the values.
  bool Skip();
  // The number of the line that came last, from 1: where it begins.
  uint64_t line() const { return line_; }

 private:
  // Finds the next line that is not empty and steps over it.
  bool Take(std::string_view& line);
  // Where the line that begins at begin_ ends; counts the lines in it.
  size_t FindEnd();
  bool Fill();

  const InputFile file_;
  const char delimiter_;
  uint64_t offset_ = 0;  // in the file, of what comes behind the buffer
  std::string buffer_;
  size_t begin_ = 0;  // of what was not taken yet, in the buffer
  uint64_t line_ = 0;
  uint64_t next_line_ = 1;
  std::string scratch_;
};

}  // namespace opstep
