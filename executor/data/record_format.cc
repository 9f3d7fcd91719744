// Record files: headers, schema and index as bytes, checked when they are read.
#include "data/record_format.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <type_traits>

#include "base/file.h"

namespace opstep::record {
namespace {

constexpr int kMaxRank = Dims::kMaxRank - 1;  // a batch of records has one more
constexpr uint64_t kMaxFirst = uint64_t{1} << 62;
constexpr size_t kMaxName = 1024;
constexpr size_t kMaxFields = 1024;

// Files are little-endian, as are the machines that opstep runs on.
template <typename T>
void Put(std::string& to, T value) {
  static_assert(std::is_integral_v<T>);
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
T Get(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// Takes values from the front of bytes that may end anywhere.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  T Take() {
    const std::string_view bytes = Bytes(sizeof(T));
    return bytes.empty() ? T{} : Get<T>(bytes.data());
  }

  std::string_view Bytes(size_t count) {
    if (count > rest_.size()) {
      good_ = false;
      return {};
    }
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }

  bool good() const { return good_; }
  bool done() const { return good_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool good_ = true;
};

// Why a schema is not valid; empty when it is.
std::string Problem(const RecordSchema& schema) {
  if (schema.empty()) return "a record needs one field or more";
  if (schema.size() > kMaxFields) return Cat("a record has at most ", kMaxFields, " fields");
  std::set<std::string_view> names;
  for (const RecordField& field : schema) {
    const std::string shown = Cat("field ", Quoted(field.name));
    if (field.name.empty() || field.name.size() > kMaxName) {
      return Cat("a field's name has 1 to ", kMaxName, " bytes");
    }
    if (!names.insert(field.name).second) return shown + " occurs twice";
    if (field.type.dtype == DType::kNone || field.type.dtype > DType::kBool) {
      return shown + " has no dtype";
    }
    if (field.type.dims.rank() > kMaxRank) {
      return Cat(shown, " has more than ", kMaxRank, " dimensions");
    }
    uint64_t bytes = SizeOf(field.type.dtype);
    for (const int64_t size : field.type.dims) {
      if (size < -1) return Cat(shown, " has the size ", size);
      if (size > kMaxBytes) return Cat(shown, " is too large: ", field.type.ToString());
      bytes *= static_cast<uint64_t>(std::max<int64_t>(size, 1));
      if (bytes > kMaxBytes) return Cat(shown, " is too large: ", field.type.ToString());
    }
  }
  return "";
}

}  // namespace

uint32_t Sum(std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

int OpenSizes(const Dims& dims) {
  return static_cast<int>(std::count(dims.begin(), dims.end(), int64_t{-1}));
}

std::string EncodeSchema(const RecordSchema& schema) {
  std::string out;
  Put(out, static_cast<uint32_t>(schema.size()));
  for (const RecordField& field : schema) {
    Put(out, static_cast<uint16_t>(field.name.size()));
    out += field.name;
    Put(out, static_cast<uint8_t>(field.type.dtype));
    Put(out, static_cast<uint8_t>(field.type.dims.rank()));
    for (const int64_t size : field.type.dims) Put(out, size);
  }
  return out;
}

std::optional<RecordSchema> DecodeSchema(std::string_view bytes) {
  Cursor cursor(bytes);
  const auto count = cursor.Take<uint32_t>();
  RecordSchema schema;
  for (uint32_t i = 0; i < count && cursor.good(); ++i) {
    RecordField& field = schema.emplace_back();
    field.name = cursor.Bytes(cursor.Take<uint16_t>());
    field.type.dtype = static_cast<DType>(cursor.Take<uint8_t>());
    const int rank = cursor.Take<uint8_t>();
    if (rank > kMaxRank) return std::nullopt;
    for (int d = 0; d < rank; ++d) field.type.dims.push_back(cursor.Take<int64_t>());
  }
  if (!cursor.done() || !Problem(schema).empty()) return std::nullopt;
  return schema;
}

void CheckSchema(const RecordSchema& schema, const std::string& what) {
  const std::string problem = Problem(schema);
  OPSTEP_CHECK(problem.empty(), what, ": ", problem);
}

std::string Encode(const FileHeader& header) {
  const std::string schema = EncodeSchema(header.schema);
  std::string out(kMagic);
  Put(out, kVersion);
  Put(out, static_cast<uint32_t>(schema.size()));
  Put(out, header.id);
  out += schema;
  Put(out, Sum(out));
  return out;
}

std::string Encode(const ChunkHeader& header) {
  std::string out(kSync);
  Put(out, header.id);
  Put(out, static_cast<uint8_t>(header.kind));
  Put(out, static_cast<uint8_t>(header.codec));
  Put(out, uint16_t{0});
  Put(out, header.records);
  Put(out, header.first);
  Put(out, header.schema_bytes);
  Put(out, header.stored_bytes);
  Put(out, header.raw_bytes);
  Put(out, header.body_sum);
  Put(out, Sum(out));
  return out;
}

std::optional<ChunkHeader> DecodeChunkHeader(const char* bytes) {
  Cursor cursor({bytes, ChunkHeader::kBytes});
  if (cursor.Bytes(kSync.size()) != kSync) return std::nullopt;
  if (Sum({bytes, ChunkHeader::kBytes - 4}) != Get<uint32_t>(bytes + ChunkHeader::kBytes - 4)) {
    return std::nullopt;
  }
  ChunkHeader header;
  header.id = cursor.Take<uint64_t>();
  header.kind = static_cast<Kind>(cursor.Take<uint8_t>());
  header.codec = static_cast<RecordCodec>(cursor.Take<uint8_t>());
  cursor.Take<uint16_t>();
  header.records = cursor.Take<uint32_t>();
  header.first = cursor.Take<uint64_t>();
  header.schema_bytes = cursor.Take<uint32_t>();
  header.stored_bytes = cursor.Take<uint32_t>();
  header.raw_bytes = cursor.Take<uint32_t>();
  header.body_sum = cursor.Take<uint32_t>();
  const bool data = header.kind == Kind::kData;
  if (!data && (header.kind != Kind::kIndex || header.records != 0)) return std::nullopt;
  if (data && (header.records == 0 || header.records > kMaxRecords)) return std::nullopt;
  if (header.codec > RecordCodec::kZlib || header.first > kMaxFirst) return std::nullopt;
  if (header.schema_bytes > kMaxSchema || header.raw_bytes > kMaxBytes) return std::nullopt;
  // zlib shrinks data by a factor of 1032 at most, and grows it by a few bytes in a thousand.
  const bool plain = header.codec == RecordCodec::kNone;
  if (plain && header.stored_bytes != header.raw_bytes) return std::nullopt;
  if (header.raw_bytes > uint64_t{header.stored_bytes} * 1032) return std::nullopt;
  if (header.stored_bytes > uint64_t{header.raw_bytes} + header.raw_bytes / 64 + 64) {
    return std::nullopt;
  }
  return header;
}

std::string Encode(const std::vector<Place>& places) {
  std::string out;
  out.reserve(places.size() * Place::kBytes);
  for (const Place& place : places) {
    Put(out, place.offset);
    Put(out, place.first);
    Put(out, place.records);
  }
  return out;
}

std::optional<std::vector<Place>> DecodePlaces(std::string_view bytes) {
  if (bytes.size() % Place::kBytes != 0) return std::nullopt;
  std::vector<Place> places(bytes.size() / Place::kBytes);
  Cursor cursor(bytes);
  uint64_t next = 0;
  for (Place& place : places) {
    place.offset = cursor.Take<uint64_t>();
    place.first = cursor.Take<uint64_t>();
    place.records = cursor.Take<uint32_t>();
    if (place.first != next || place.records == 0 || place.first > kMaxFirst) return std::nullopt;
    next = place.end();
  }
  return places;
}

std::string EncodeTail(uint64_t index_offset) {
  std::string out;
  Put(out, index_offset);
  out += kTail;
  Put(out, Sum(out));
  return out;
}

std::optional<uint64_t> DecodeTail(const char* bytes) {
  if (std::string_view(bytes + 8, kTail.size()) != kTail) return std::nullopt;
  if (Sum({bytes, kTailBytes - 4}) != Get<uint32_t>(bytes + kTailBytes - 4)) return std::nullopt;
  return Get<uint64_t>(bytes);
}

}  // namespace opstep::record
