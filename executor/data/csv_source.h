// CsvSource: records from .csv files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/csv_reader.h"
#include "data/source.h"

namespace opstep {

// A field and the columns of its numbers, in the order of its elements.
struct CsvField {
  std::string name;
  VarType type;
  std::vector<std::string> columns;
};

// "x=a,b,c", "label:int64", "y:float32[2, 2]=p,q,r,s": a name, a dtype (float32) optional sizes
// (default: [] for one column, else their number), and the columns (default: one with the field's
// name), quoted as in a file if necessary.
CsvField ParseCsvField(const std::string& text);
std::vector<CsvField> ParseCsvFields(const std::vector<std::string>& texts);
// An error unless it is one character that can separate values.
char CheckDelimiter(const std::string& delimiter);

// Lines of numbers in .csv files whose first line names the columns, one file after the other.
// Other columns may hold anything.
class CsvSource : public Source {
 public:
  // Without fields each column of the first file is one, a float32 each.
  CsvSource(std::vector<std::string> paths, const std::vector<std::string>& fields,
            const std::string& delimiter = ",");

  const std::vector<SourceField>& fields() const override { return fields_; }
  void Restart(uint64_t pass) override;
  bool Next(SourceRecord& record) override;
  // Checks line ends and quotes only.
  uint64_t Skip(uint64_t count) override;

 private:
  // A column of the open file and its element.
  struct Target {
    size_t column = 0;
    size_t field = 0;
    size_t element = 0;
  };

  std::vector<std::string> ReadHeader(CsvReader& file) const;
  void Open(size_t index);
  void Convert(const Target& target, SourceRecord& record) const;

  const std::vector<std::string> paths_;
  const char delimiter_;
  std::vector<CsvField> columns_;
  std::vector<SourceField> fields_;
  size_t index_ = 0;  // of the file that is open
  std::unique_ptr<CsvReader> file_;
  size_t width_ = 0;  // its number of columns
  std::vector<Target> targets_;
  CsvValues values_;
};

}  // namespace opstep
