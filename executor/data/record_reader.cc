// RecordReader: the index, the search in damaged files, the count of losses.
#include "data/record_reader.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace opstep {

using record::ChunkHeader;
using record::Kind;
using record::Place;

Damage DamageNamed(const std::string& name) {
  OPSTEP_CHECK(name == "fail" || name == "skip", "damaged is 'fail' or 'skip', not ", Quoted(name));
  return name == "fail" ? Damage::kFail : Damage::kSkip;
}

RecordReader::RecordReader(const std::string& path, Damage damage) : file_(path), damage_(damage) {
  char magic[8] = {};
  if (file_.size() >= sizeof(magic)) file_.Read(0, magic, sizeof(magic));
  const bool ours = std::string_view(magic, sizeof(magic)) == record::kMagic;
  known_ = ReadFileHeader();
  if (!ReadIndex() || header_bytes_ == 0) {
    if (!known_) LearnSchema();
    OPSTEP_CHECK(known_ || ours, Quoted(path), " is not a record file");
    OPSTEP_CHECK(known_, "cannot read ", Quoted(path),
                 ": its header is damaged and no chunk is intact");
    Recover();
    CheckWhole();
  }
}

std::string RecordReader::DescribeLoss() const {
  std::string text = Cat(Quoted(path()), " is damaged at byte ", damaged_at_, " of ", file_.size(),
                         ": ", loss_.records, loss_.records == 1 ? " record" : " records", " of ",
                         records_, " in ", loss_.chunks, loss_.chunks == 1 ? " chunk" : " chunks",
                         loss_.records == 1 ? " is" : " are", " lost");
  if (loss_.torn) text += ", and perhaps more: the index at its end is missing";
  return text;
}

void RecordReader::CheckWhole() const {
  OPSTEP_CHECK(damage_ == Damage::kSkip || !loss_.any(), DescribeLoss(),
               "; replace the file, or go on without them by damaged=\"skip\" (opstep run: "
               "--skip-damaged)");
}

std::shared_ptr<const RecordChunk> RecordReader::ChunkFrom(uint64_t index) {
  if (recovered_) CheckWhole();
  if (last_ && last_->first() <= index && index < last_->end()) return last_;
  for (;;) {
    const auto after = [](uint64_t i, const Place& place) { return i < place.end(); };
    const auto place = std::upper_bound(places_.begin(), places_.end(), index, after);
    if (place == places_.end()) return nullptr;
    const std::optional<ChunkHeader> header = HeaderAt(place->offset);
    if (header && header->first == place->first && header->records == place->records) {
      last_ = ReadChunk(*header, place->offset);
      if (last_) return last_;
    }
    OPSTEP_CHECK(!recovered_, "cannot read ", Quoted(path()), ": it was changed while it was read");
    Recover();
    CheckWhole();
  }
}

const RecordLoss& RecordReader::Verify() {
  Recover();
  return loss_;
}

bool RecordReader::ReadFileHeader() {
  char lead[record::kFileHeaderLead];
  if (file_.size() < sizeof(lead)) return false;
  file_.Read(0, lead, sizeof(lead));
  if (std::string_view(lead, 8) != record::kMagic) return false;
  uint32_t version = 0, length = 0, sum = 0;
  std::memcpy(&version, lead + 8, sizeof(version));
  std::memcpy(&length, lead + 12, sizeof(length));
  if (length > record::kMaxSchema || file_.size() - sizeof(lead) < length + sizeof(sum)) {
    return false;
  }
  std::string bytes(sizeof(lead) + length, '\0');
  file_.Read(0, bytes.data(), bytes.size());
  file_.Read(bytes.size(), &sum, sizeof(sum));
  if (sum != record::Sum(bytes)) return false;
  OPSTEP_CHECK(version == record::kVersion, Quoted(path()), " is of record format ", version,
               "; format ", record::kVersion, " is known");
  std::optional<RecordSchema> schema =
      record::DecodeSchema(std::string_view(bytes).substr(sizeof(lead)));
  if (!schema) return false;
  schema_ = std::move(*schema);
  std::memcpy(&id_, lead + 16, sizeof(id_));
  header_bytes_ = bytes.size() + sizeof(sum);
  return true;
}

// Without a search: the last bytes give the place of the index.
bool RecordReader::ReadIndex() {
  if (file_.size() < record::kTailBytes) return false;
  char tail[record::kTailBytes];
  file_.Read(file_.size() - sizeof(tail), tail, sizeof(tail));
  const std::optional<uint64_t> offset = record::DecodeTail(tail);
  if (!offset) return false;
  const std::optional<ChunkHeader> header = HeaderAt(*offset);
  if (!header || header->kind != Kind::kIndex) return false;
  if (!known_) {
    std::shared_ptr<void> raw;
    known_ = ReadBody(*header, *offset, schema_, raw);
    id_ = header->id;
  }
  std::optional<std::vector<Place>> places = IndexAt(*header, *offset);
  if (!places || *offset + header->bytes() + sizeof(tail) != file_.size()) return false;
  places_ = std::move(*places);
  records_ = header->first;
  return true;
}

std::optional<std::vector<Place>> RecordReader::IndexAt(const ChunkHeader& header,
                                                        uint64_t offset) const {
  RecordSchema schema;
  std::shared_ptr<void> raw;
  if (header.id != id_ || !ReadBody(header, offset, schema, raw)) return std::nullopt;
  std::optional<std::vector<Place>> places =
      record::DecodePlaces({static_cast<const char*>(raw.get()), header.raw_bytes});
  if (!places) return std::nullopt;
  const uint64_t end = places->empty() ? 0 : places->back().end();
  return end == header.first ? std::move(places) : std::nullopt;
}

std::optional<ChunkHeader> RecordReader::HeaderAt(uint64_t offset) const {
  char bytes[ChunkHeader::kBytes];
  if (offset > file_.size() || file_.size() - offset < sizeof(bytes)) return std::nullopt;
  file_.Read(offset, bytes, sizeof(bytes));
  return record::DecodeChunkHeader(bytes);
}

bool RecordReader::ReadBody(const ChunkHeader& header, uint64_t offset, RecordSchema& schema,
                            std::shared_ptr<void>& raw) const {
  if (file_.size() - offset < header.bytes()) return false;
  const size_t bytes = size_t{header.schema_bytes} + header.stored_bytes;
  // The payload gets its own aligned place, so that an uncompressed one needs no copy.
  std::string schema_bytes(header.schema_bytes, '\0');
  std::shared_ptr<void> stored = AllocateAligned(header.stored_bytes);
  file_.Read(offset + ChunkHeader::kBytes, schema_bytes.data(), schema_bytes.size());
  file_.Read(offset + ChunkHeader::kBytes + schema_bytes.size(), stored.get(),
             bytes - schema_bytes.size());
  const auto* payload = static_cast<const Bytef*>(stored.get());
  const uLong sum = crc32_z(record::Sum(schema_bytes), payload, header.stored_bytes);
  if (static_cast<uint32_t>(sum) != header.body_sum) return false;
  std::optional<RecordSchema> decoded = record::DecodeSchema(schema_bytes);
  if (!decoded) return false;
  schema = std::move(*decoded);
  if (header.codec == RecordCodec::kNone) {
    raw = std::move(stored);
    return true;
  }
  raw = AllocateAligned(header.raw_bytes);
  uLongf length = header.raw_bytes;
  const int result =
      uncompress(static_cast<Bytef*>(raw.get()), &length, payload, header.stored_bytes);
  return result == Z_OK && length == header.raw_bytes;
}

std::shared_ptr<const RecordChunk> RecordReader::ReadChunk(const ChunkHeader& header,
                                                           uint64_t offset) const {
  if (header.kind != Kind::kData || header.id != id_) return nullptr;
  RecordSchema schema;
  std::shared_ptr<void> raw;
  if (!ReadBody(header, offset, schema, raw) || schema != schema_) return nullptr;
  return RecordChunk::Make(schema_, header.first, header.records, std::move(raw), header.raw_bytes);
}

uint64_t RecordReader::FindSync(uint64_t from) const {
  // Markers may lie close together, in damaged data even everywhere: the first read is short.
  size_t length = 4 << 10;
  constexpr size_t kLongest = 1 << 20;
  constexpr size_t kOverlap = record::kSync.size() - 1;
  std::string window;
  while (from < file_.size() && file_.size() - from >= ChunkHeader::kBytes) {
    window.resize(static_cast<size_t>(std::min<uint64_t>(length, file_.size() - from)));
    file_.Read(from, window.data(), window.size());
    const size_t found = window.find(record::kSync);
    if (found != std::string::npos) return from + found;
    from += window.size() - kOverlap;
    length = std::min(length * 2, kLongest);
  }
  return file_.size();
}

// Every chunk carries the schema: the first intact one replaces a damaged header.
void RecordReader::LearnSchema() {
  for (uint64_t at = FindSync(0); at < file_.size() && !known_; at = FindSync(at + 1)) {
    const std::optional<ChunkHeader> header = HeaderAt(at);
    std::shared_ptr<void> raw;
    known_ = header && ReadBody(*header, at, schema_, raw);
    if (known_) id_ = header->id;
  }
}

void RecordReader::Recover() {
  recovered_ = true;
  last_ = nullptr;
  std::optional<std::vector<Place>> index;
  std::vector<Place> places;
  RecordLoss loss;
  uint64_t intact = header_bytes_;  // bytes
  uint64_t known = 0;               // records that are known to have been written
  bool seen = true;                 // nothing unexplained lies before `at`
  std::optional<uint64_t> damaged;  // the first byte that is
  if (header_bytes_ == 0) damaged = 0;
  uint64_t at = header_bytes_ > 0 ? header_bytes_ : FindSync(0);
  while (at < file_.size()) {
    const std::optional<ChunkHeader> header = HeaderAt(at);
    const bool ours = header && header->id == id_;
    if (ours && header->kind == Kind::kIndex && (index = IndexAt(*header, at))) {
      intact += header->bytes();
      seen = true;
      at += header->bytes();
      known = std::max(known, header->first);
      char tail[record::kTailBytes];
      if (file_.size() - at >= sizeof(tail)) {
        file_.Read(at, tail, sizeof(tail));
        if (record::DecodeTail(tail)) {
          intact += sizeof(tail);
          at += sizeof(tail);
          continue;
        }
      }
      if (!damaged) damaged = at;
      continue;
    }
    const bool next = ours && header->kind == Kind::kData &&
                      (places.empty() || header->first >= places.back().end());
    if (next) known = std::max(known, header->end());
    if (next && ReadChunk(*header, at)) {
      places.push_back({at, header->first, header->records});
      intact += header->bytes();
      at += header->bytes();
      seen = true;
      continue;
    }
    if (next || seen) ++loss.chunks;
    if (!damaged) damaged = at;
    seen = false;
    at = FindSync(at + 1);
  }
  loss.torn = !index;
  // The index knows the number of records.
  if (index) loss.chunks = index->size() > places.size() ? index->size() - places.size() : 0;
  loss.bytes = file_.size() - std::min(intact, file_.size());
  for (const Place& place : places) loss.records += place.records;
  loss.records = known - std::min(known, loss.records);
  if (!damaged && index) {
    // Chunks that are missing without a trace.
    const auto differs =
        std::mismatch(index->begin(), index->end(), places.begin(), places.end(),
                      [](const Place& was, const Place& is) { return was.first == is.first; });
    if (differs.first != index->end()) damaged = differs.first->offset;
  }
  damaged_at_ = damaged.value_or(file_.size());
  places_ = std::move(places);
  records_ = known;
  loss_ = loss;
}

}  // namespace opstep
