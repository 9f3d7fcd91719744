// NumPy's .npy files: the header, and data in either order.
#include "base/npy.h"

#include <charconv>
#include <cstring>
#include <vector>

#include "base/file_tensor.h"

namespace opstep {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
// NumPy's own headers have about 100 bytes.
constexpr uint64_t kMaxNpyHeader = 64 << 10;

struct Code {
  DType dtype;
  std::string_view text;
};
constexpr Code kCodes[] = {
    {DType::kFloat16, "<f2"}, {DType::kFloat32, "<f4"}, {DType::kFloat64, "<f8"},
    {DType::kInt8, "|i1"},    {DType::kInt16, "<i2"},   {DType::kInt32, "<i4"},
    {DType::kInt64, "<i8"},   {DType::kUInt8, "|u1"},   {DType::kBool, "|b1"}};

// Reads the one kind of Python literal that a header is:
// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class Reader {
 public:
  Reader(std::string_view text, const std::string& what) : text_(text), what_(what) {}

  [[noreturn]] void Bad() const { Fail(what_, " has no proper .npy header"); }

  bool Take(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void Need(char c) {
    if (!Take(c)) Bad();
  }

  std::string_view String() {
    const char quote = Take('"') ? '"' : '\'';
    if (quote == '\'') Need('\'');
    const size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) Bad();
    const std::string_view text = text_.substr(at_, end - at_);
    at_ = end + 1;
    return text;
  }

  bool Bool() {
    const bool value = Take('T');
    if (!value) Need('F');
    const std::string_view rest = value ? "rue" : "alse";
    if (text_.substr(at_, rest.size()) != rest) Bad();
    at_ += rest.size();
    return value;
  }

  int64_t Size() {
    SkipSpace();
    int64_t size = 0;
    const char* end = text_.data() + text_.size();
    const auto [next, error] = std::from_chars(text_.data() + at_, end, size);
    if (error != std::errc() || size < 0) Bad();
    at_ = static_cast<size_t>(next - text_.data());
    return size;
  }

  void End() {
    SkipSpace();
    if (at_ < text_.size()) Bad();
  }

 private:
  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }

  const std::string_view text_;
  const std::string& what_;
  size_t at_ = 0;
};

DType DTypeOfCode(std::string_view code, const std::string& what) {
  for (const Code& known : kCodes) {
    if (known.text == code) return known.dtype;
  }
  OPSTEP_CHECK(code.empty() || code[0] != '>', what, " holds big-endian numbers (", Quoted(code),
               "); save it little-endian");
  Fail(what, " holds ", Quoted(code), ", a dtype that opstep does not know");
}

// Element by element from column-major to row-major order.
void Reorder(const char* from, char* to, const Dims& dims, size_t size) {
  std::vector<int64_t> index(dims.rank(), 0);
  for (int64_t n = dims.numel(); n > 0; --n, from += size) {
    int64_t place = 0;
    for (int i = 0; i < dims.rank(); ++i) place = place * dims[i] + index[i];
    std::memcpy(to + static_cast<size_t>(place) * size, from, size);
    for (int i = 0; i < dims.rank() && ++index[i] == dims[i]; ++i) index[i] = 0;
  }
}

void ParseHeader(const std::string& text, const std::string& what, NpyHeader& header) {
  Reader reader(text, what);
  int seen = 0;
  reader.Need('{');
  while (!reader.Take('}')) {
    const std::string_view key = reader.String();
    reader.Need(':');
    const int bit = key == "descr" ? 1 : key == "fortran_order" ? 2 : key == "shape" ? 4 : 0;
    if (bit == 0 || (seen & bit) != 0) reader.Bad();
    seen |= bit;
    if (bit == 1) {
      OPSTEP_CHECK(!reader.Take('['), what, " holds records; opstep reads plain arrays");
      header.type.dtype = DTypeOfCode(reader.String(), what);
    } else if (bit == 2) {
      header.column_major = reader.Bool();
    } else {
      reader.Need('(');
      while (!reader.Take(')')) {
        OPSTEP_CHECK(header.type.dims.rank() < Dims::kMaxRank, what, " has more than ",
                     Dims::kMaxRank, " dimensions");
        header.type.dims.push_back(reader.Size());
        if (reader.Take(')')) break;
        reader.Need(',');
      }
    }
    if (reader.Take('}')) break;
    reader.Need(',');
  }
  reader.End();
  if (seen != 7) reader.Bad();
}

}  // namespace

NpyHeader ReadNpyHeader(const NextBytes& next, uint64_t size, const std::string& what) {
  unsigned char start[12] = {};
  if (size >= 10) next(start, 10);
  OPSTEP_CHECK(std::memcmp(start, kMagic.data(), kMagic.size()) == 0, what, " is not a .npy file");
  const int major = start[6];
  OPSTEP_CHECK(major >= 1 && major <= 3, what, " is of .npy format ", major,
               "; formats 1 to 3 are known");
  const uint64_t lead = major > 1 ? 12 : 10;
  OPSTEP_CHECK(size >= lead, what, " is not whole: its header is cut");
  if (major > 1) next(start + 10, 2);
  const uint64_t length = uint64_t{start[8]} | uint64_t{start[9]} << 8 | uint64_t{start[10]} << 16 |
                          uint64_t{start[11]} << 24;
  OPSTEP_CHECK(length <= kMaxNpyHeader, what, " has a .npy header of ", length, " bytes; at most ",
               kMaxNpyHeader, " are read");
  OPSTEP_CHECK(length <= size - lead, what, " is not whole: its header is cut");
  std::string text(static_cast<size_t>(length), '\0');
  next(text.data(), text.size());
  NpyHeader header;
  header.bytes = lead + length;
  ParseHeader(text, what, header);
  const uint64_t bytes = CheckedBytes(header.type, what);
  const uint64_t rest = size - header.bytes;
  OPSTEP_CHECK(rest == bytes, what, " should have ", bytes, " bytes of data for ",
               header.type.ToString(), " but has ", rest);
  return header;
}

void ReadNpyData(const NpyHeader& header, const NextBytes& next, void* to,
                 const std::string& what) {
  const auto& [dtype, dims] = header.type;
  const size_t bytes = static_cast<size_t>(dims.numel()) * SizeOf(dtype);
  if (header.column_major && dims.rank() > 1) {
    const std::shared_ptr<void> columns = AllocateAligned(bytes);
    next(columns.get(), bytes);
    Reorder(static_cast<const char*>(columns.get()), static_cast<char*>(to), dims, SizeOf(dtype));
  } else {
    next(to, bytes);
  }
  CheckBools(dtype, to, bytes, what);
}

NpyFile::NpyFile(const std::string& path) : file_(path) {
  uint64_t offset = 0;
  const auto next = [&](void* to, size_t bytes) {
    file_.Read(offset, to, bytes);
    offset += bytes;
  };
  header_ = ReadNpyHeader(next, file_.size(), Quoted(path));
}

void NpyFile::Read(void* to) const {
  // The whole data is requested at once.
  const auto next = [&](void* data, size_t bytes) { file_.Read(header_.bytes, data, bytes); };
  ReadNpyData(header_, next, to, Quoted(file_.path()));
}

void WriteNpy(const std::string& path, const Tensor& tensor, bool overwrite) {
  std::string_view code;
  for (const Code& known : kCodes) {
    if (known.dtype == tensor.dtype) code = known.text;
  }
  OPSTEP_CHECK(!code.empty(), "cannot write ", Quoted(path), ": a .npy file cannot hold ",
               NameOf(tensor.dtype), "; give the file another ending for safetensors");
  std::string header = Cat("{'descr': '", code, "', 'fortran_order': False, 'shape': (");
  for (const int64_t size : tensor.dims) header += Cat(size, tensor.dims.rank() == 1 ? "," : ", ");
  if (tensor.dims.rank() > 1) header.resize(header.size() - 2);
  header += "), }";
  // NumPy wants the data to begin at a multiple of 64.
  constexpr size_t kLead = 10;
  header.append(Align(kLead + header.size() + 1) - kLead - header.size() - 1, ' ');
  header += '\n';
  OutputFile file(path, overwrite);
  file.Write(kMagic);
  const unsigned char rest[4] = {1, 0, static_cast<unsigned char>(header.size() & 255),
                                 static_cast<unsigned char>(header.size() >> 8)};
  file.Write(rest, sizeof(rest));
  file.Write(header);
  file.Write(tensor.data, tensor.bytes());
  file.Commit();
}

}  // namespace opstep
