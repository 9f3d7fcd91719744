// Record files: the layout that writer and reader share. docs/records.md has it byte by byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"

namespace opstep {

// One value of each record; a size of -1 may differ from record to record.
struct RecordField {
  std::string name;
  VarType type;
  bool operator==(const RecordField&) const = default;
};
using RecordSchema = std::vector<RecordField>;

enum class RecordCodec : uint8_t { kNone = 0, kZlib = 1 };

namespace record {

inline constexpr std::string_view kMagic = "\x89OPSREC\n";
inline constexpr std::string_view kSync = "\xf0op\xc5hunk";
inline constexpr std::string_view kTail = "opsindex";
inline constexpr uint32_t kVersion = 1;
// The limits of a chunk: no file makes a reader take more memory than this.
inline constexpr uint32_t kMaxBytes = 256u << 20;
inline constexpr uint32_t kMaxRecords = 1u << 20;
inline constexpr uint32_t kMaxSchema = 1u << 20;

struct FileHeader {
  // Drawn for each file and repeated in its chunks: a chunk of another file, which may be stored as
  // data in this one, is not mistaken for a chunk of this file.
  uint64_t id = 0;
  RecordSchema schema;
};
// Magic, version, length of the schema and id come before the schema, a checksum after it.
inline constexpr size_t kFileHeaderLead = 24;
std::string Encode(const FileHeader& header);

enum class Kind : uint8_t { kData = 'D', kIndex = 'I' };

struct ChunkHeader {
  static constexpr size_t kBytes = 52;
  uint64_t id = 0;
  Kind kind = Kind::kData;
  RecordCodec codec = RecordCodec::kNone;
  uint32_t records = 0;
  uint64_t first = 0;  // the number of its first record in the file
  uint32_t schema_bytes = 0;
  uint32_t stored_bytes = 0;
  uint32_t raw_bytes = 0;
  uint32_t body_sum = 0;  // of schema and payload as they are stored

  uint64_t end() const { return first + records; }
  // Header, schema and payload.
  uint64_t bytes() const { return kBytes + uint64_t{schema_bytes} + stored_bytes; }
};
std::string Encode(const ChunkHeader& header);
// Empty unless all of it is valid.
std::optional<ChunkHeader> DecodeChunkHeader(const char* bytes);

// The start of a data chunk and its records.
struct Place {
  static constexpr size_t kBytes = 20;
  uint64_t offset = 0;
  uint64_t first = 0;
  uint32_t records = 0;
  uint64_t end() const { return first + records; }
};
std::string Encode(const std::vector<Place>& places);
std::optional<std::vector<Place>> DecodePlaces(std::string_view bytes);

// The last bytes of a complete file: the start of its index chunk.
inline constexpr size_t kTailBytes = 20;
std::string EncodeTail(uint64_t index_offset);
std::optional<uint64_t> DecodeTail(const char* bytes);

std::string EncodeSchema(const RecordSchema& schema);
std::optional<RecordSchema> DecodeSchema(std::string_view bytes);
// An error unless a file may have this schema; `what` begins its sentence.
void CheckSchema(const RecordSchema& schema, const std::string& what);

uint32_t Sum(std::string_view bytes);
// Parts of a payload begin at multiples of 8, so that elements can be read in place.
inline constexpr size_t Padded(size_t bytes) { return (bytes + 7) & ~size_t{7}; }
int OpenSizes(const Dims& dims);

}  // namespace record
}  // namespace opstep
