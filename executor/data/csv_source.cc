// CsvSource: fields from columns, numbers from text.
#include "data/csv_source.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <type_traits>
#include <utility>

#include "base/type_text.h"
#include "base/utf8.h"

namespace opstep {
namespace {

std::string_view Stripped(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
  const size_t end = text.find_last_not_of(kSpace) + 1;
  return text.substr(begin, end < begin ? 0 : end - begin);
}

std::vector<std::string> Names(const CsvValues& values) {
  std::vector<std::string> names;
  for (const std::string_view value : values) names.emplace_back(Stripped(value));
  return names;
}

enum class Found { kNumber, kNone, kOutOfRange };

// Parses the whole text, in no locale.
template <typename T>
Found Parse(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range && next == end) return Found::kOutOfRange;
  return error == std::errc() && next == end ? Found::kNumber : Found::kNone;
}

Found ParseBool(std::string_view text, bool& value) {
  std::string lower(text.substr(0, 6));
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  value = lower == "1" || lower == "true";
  return value || lower == "0" || lower == "false" ? Found::kNumber : Found::kNone;
}

template <typename T>
Found Store(std::string_view text, T& to) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  if constexpr (std::is_same_v<T, bool>) {
    return ParseBool(text, to);
  } else if constexpr (std::is_integral_v<T>) {
    int64_t value = 0;
    const Found found = Parse(text, value);
    if (found != Found::kNumber) return found;
    to = static_cast<T>(value);
    return value == int64_t{to} ? found : Found::kOutOfRange;
  } else {
    double value = 0;
    const Found found = Parse(text, value);
    if (found != Found::kNumber) return found;
    to = static_cast<T>(value);
    return std::isinf(static_cast<double>(to)) && !std::isinf(value) ? Found::kOutOfRange : found;
  }
}

}  // namespace

char CheckDelimiter(const std::string& delimiter) {
  const bool good = delimiter.size() == 1 && delimiter[0] != '"' && delimiter[0] != '\n' &&
                    delimiter[0] != '\r' && static_cast<unsigned char>(delimiter[0]) < 0x80;
  OPSTEP_CHECK(good, "the delimiter is ", Quoted(delimiter),
               "; it must be one character, such as a comma, a semicolon or a tab");
  return delimiter[0];
}

CsvField ParseCsvField(const std::string& text) {
  const size_t equals = std::min(text.find('='), text.size());
  const std::string_view lead = Stripped(std::string_view(text).substr(0, equals));
  const size_t colon = std::min(lead.find_last_of(':'), lead.size());
  CsvField field;
  field.name = Stripped(lead.substr(0, colon));
  OPSTEP_CHECK(!field.name.empty(), "the field ", Quoted(text), " has no name");
  field.columns = {field.name};
  if (equals < text.size()) {
    CsvValues values;
    std::string scratch;
    SplitCsv(std::string_view(text).substr(equals + 1), ',', values, scratch);
    field.columns = Names(values);
  }
  const auto n = static_cast<int64_t>(field.columns.size());
  if (n == 1) {
    field.type = {DType::kFloat32, {}};
  } else {
    field.type = {DType::kFloat32, {n}};
  }
  if (colon == lead.size()) return field;
  const std::string type(Stripped(lead.substr(colon + 1)));
  if (type.find('[') == std::string::npos) {
    const std::optional<DType> dtype = DTypeFromName(type);
    OPSTEP_CHECK(dtype, "the field ", Quoted(text), " has the unknown dtype ", Quoted(type));
    field.type.dtype = *dtype;
    return field;
  }
  const std::optional<VarType> sized = ParseType(type);
  OPSTEP_CHECK(sized, "the field ", Quoted(text), " has the type ", Quoted(type),
               "; write for example float32 or float32[2, 3]");
  OPSTEP_CHECK(sized->dims.numel() == n, "the field ", Quoted(text), " has ", n,
               n == 1 ? " column" : " columns", " for the shape ", sized->dims.ToString());
  field.type = *sized;
  return field;
}

std::vector<CsvField> ParseCsvFields(const std::vector<std::string>& texts) {
  std::vector<CsvField> fields;
  std::set<std::string> names;
  for (const std::string& text : texts) {
    fields.push_back(ParseCsvField(text));
    OPSTEP_CHECK(names.insert(fields.back().name).second, "the field ", Quoted(fields.back().name),
                 " occurs twice");
  }
  return fields;
}

CsvSource::CsvSource(std::vector<std::string> paths, const std::vector<std::string>& fields,
                     const std::string& delimiter)
    : paths_(std::move(paths)),
      delimiter_(CheckDelimiter(delimiter)),
      columns_(ParseCsvFields(fields)) {
  OPSTEP_CHECK(!paths_.empty(), "paths is empty: name a file");
  if (columns_.empty()) {
    CsvReader file(paths_[0], delimiter_);
    for (const std::string& name : ReadHeader(file)) {
      columns_.push_back({name, {DType::kFloat32, {}}, {name}});
    }
  }
  for (const CsvField& field : columns_) fields_.push_back({field.name, field.type});
  // Checks all files now, so that an error in the last one does not appear after hours.
  for (size_t i = paths_.size(); i-- > 0;) Open(i);
}

std::vector<std::string> CsvSource::ReadHeader(CsvReader& file) const {
  CsvValues values;
  OPSTEP_CHECK(file.Next(values), Quoted(file.path()),
               " is empty: its first line must name the columns");
  std::vector<std::string> names = Names(values);
  std::set<std::string> seen;
  for (const std::string& name : names) {
    OPSTEP_CHECK(IsUtf8(name), Quoted(file.path()), " is not a .csv file: its first line is not ",
                 "UTF-8");
    OPSTEP_CHECK(!name.empty(), Quoted(file.path()), " has a column without a name in its first ",
                 "line");
    OPSTEP_CHECK(seen.insert(name).second, Quoted(file.path()), " names the column ", Quoted(name),
                 " twice in its first line");
  }
  return names;
}

void CsvSource::Open(size_t index) {
  auto file = std::make_unique<CsvReader>(paths_[index], delimiter_);
  const std::vector<std::string> header = ReadHeader(*file);
  std::map<std::string_view, size_t> places;
  for (size_t i = 0; i < header.size(); ++i) places.emplace(header[i], i);
  std::vector<Target> targets;
  for (size_t f = 0; f < columns_.size(); ++f) {
    for (size_t i = 0; i < columns_[f].columns.size(); ++i) {
      const std::string& name = columns_[f].columns[i];
      const auto place = places.find(name);
      OPSTEP_CHECK(place != places.end(), Quoted(paths_[index]), " has no column ", Quoted(name),
                   ", which field ", Quoted(columns_[f].name), " needs");
      targets.push_back({place->second, f, i});
    }
  }
  targets_ = std::move(targets);
  width_ = header.size();
  file_ = std::move(file);
  index_ = index;
}

void CsvSource::Restart(uint64_t) { Open(0); }

bool CsvSource::Next(SourceRecord& record) {
  while (!file_->Next(values_)) {
    if (index_ + 1 == paths_.size()) return false;
    Open(index_ + 1);
  }
  OPSTEP_CHECK(values_.size() == width_, "line ", file_->line(), " of ", Quoted(file_->path()),
               " has ", values_.size(), values_.size() == 1 ? " value" : " values", " for ", width_,
               " columns");
  record.clear();
  for (const SourceField& field : fields_) record.push_back(Tensor::Allocate(field.type));
  for (const Target& target : targets_) Convert(target, record);
  return true;
}

void CsvSource::Convert(const Target& target, SourceRecord& record) const {
  const std::string_view text = Stripped(values_[target.column]);
  Tensor& value = record[target.field];
  const Found found = DispatchEvery(value.dtype, [&](auto type) {
    return Store(text, value.as<decltype(type)>()[target.element]);
  });
  if (found == Found::kNumber) return;
  const std::string& name = columns_[target.field].columns[target.element];
  const std::string where = Cat("line ", file_->line(), " of ", Quoted(file_->path()));
  OPSTEP_CHECK(!text.empty(), where, " has no value for ", Quoted(name),
               IsFloat(value.dtype) ? "; write nan where one is missing" : "");
  Fail(where, " has ", Quoted(text), " for ", Quoted(name), ", which ",
       found == Found::kNone ? "is not a valid " : "is beyond ", NameOf(value.dtype));
}

uint64_t CsvSource::Skip(uint64_t count) {
  uint64_t done = 0;
  while (done < count) {
    if (file_->Skip()) {
      ++done;
    } else if (index_ + 1 < paths_.size()) {
      Open(index_ + 1);
    } else {
      break;
    }
  }
  return done;
}

}  // namespace opstep
