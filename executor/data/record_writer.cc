// RecordWriter: chunks, compression, the index at the end.
#include "data/record_writer.h"

#include <zlib.h>

#include <random>
#include <utility>

namespace opstep {
namespace {

uint64_t RandomId() {
  std::random_device source;
  return uint64_t{source()} << 32 | source();
}

}  // namespace

RecordWriter::RecordWriter(const std::string& path, RecordSchema schema, const Options& options)
    : shown_(Quoted(path)),
      schema_((record::CheckSchema(schema, "cannot write " + shown_), std::move(schema))),
      schema_bytes_(record::EncodeSchema(schema_)),
      options_(options),
      file_(path, true),
      id_(RandomId()),
      columns_(schema_.size()) {
  OPSTEP_CHECK(options.chunk_bytes >= 1 && options.chunk_bytes <= record::kMaxBytes / 4,
               "cannot write ", shown_, ": a chunk has 1 to ", record::kMaxBytes / 4,
               " bytes, not ", options.chunk_bytes);
  const std::string header = record::Encode(record::FileHeader{id_, schema_});
  file_.Write(header);
  offset_ = header.size();
}

void RecordWriter::Check(const RecordField& field, const VarType& type) const {
  bool fits = type.dtype == field.type.dtype && type.dims.rank() == field.type.dims.rank();
  for (int i = 0; fits && i < type.dims.rank(); ++i) {
    fits = field.type.dims[i] == -1 || field.type.dims[i] == type.dims[i];
  }
  OPSTEP_CHECK(fits, "cannot write a record to ", shown_, ": ", Quoted(field.name), " is ",
               type.ToString(), " but the file has it as ", field.type.ToString());
}

void RecordWriter::Write(std::span<const Tensor> values) {
  OPSTEP_CHECK(!closed_, "cannot write a record to ", shown_, ": it is closed");
  OPSTEP_CHECK(values.size() == schema_.size(), "cannot write a record to ", shown_, ": it has ",
               values.size(), " values for ", schema_.size(), " fields");
  for (size_t f = 0; f < values.size(); ++f) Check(schema_[f], values[f].type());
  Append(values);
}

void RecordWriter::WriteBatch(std::span<const Tensor> batch) {
  OPSTEP_CHECK(!closed_, "cannot write records to ", shown_, ": it is closed");
  OPSTEP_CHECK(batch.size() == schema_.size(), "cannot write records to ", shown_, ": there are ",
               batch.size(), " values for ", schema_.size(), " fields");
  std::vector<Tensor> row;
  for (size_t f = 0; f < batch.size(); ++f) {
    const Dims& dims = batch[f].dims;
    OPSTEP_CHECK(dims.rank() > 0, "cannot write records to ", shown_, ": ", Quoted(schema_[f].name),
                 " is a single number, not one for each record");
    OPSTEP_CHECK(dims[0] == batch[0].dims[0], "cannot write records to ", shown_, ": ",
                 Quoted(schema_[0].name), " has ", batch[0].dims[0], " of them but ",
                 Quoted(schema_[f].name), " has ", dims[0]);
    const VarType type{batch[f].dtype,
                       Dims(std::span<const int64_t>(dims.begin() + 1, dims.end()))};
    Check(schema_[f], type);
    row.emplace_back(type).data = batch[f].data;
  }
  for (int64_t i = 0; i < batch[0].dims[0]; ++i) {
    Append(row);
    for (Tensor& value : row) value.data = value.as<char>() + value.bytes();
  }
}

void RecordWriter::Append(std::span<const Tensor> values) {
  size_t bytes = 0;
  for (const Tensor& value : values) bytes += value.bytes() + sizeof(int64_t) * value.dims.rank();
  OPSTEP_CHECK(bytes <= record::kMaxBytes / 2, "cannot write a record of ", bytes, " bytes to ",
               shown_, ": a record has at most ", record::kMaxBytes / 2);
  for (size_t f = 0; f < values.size(); ++f) {
    Column& column = columns_[f];
    for (int i = 0; i < values[f].dims.rank(); ++i) {
      const int64_t size = values[f].dims[i];
      if (schema_[f].type.dims[i] == -1) {
        column.sizes.append(reinterpret_cast<const char*>(&size), sizeof(size));
      }
    }
    if (values[f].bytes() > 0) column.data.append(values[f].as<char>(), values[f].bytes());
  }
  pending_bytes_ += bytes;
  ++pending_;
  if (pending_bytes_ >= options_.chunk_bytes || pending_ == record::kMaxRecords) Flush();
}

void RecordWriter::Flush() {
  OPSTEP_CHECK(!closed_, "cannot flush ", shown_, ": it is closed");
  if (pending_ == 0) return;
  std::string raw;
  for (Column& column : columns_) {
    raw += column.sizes;
    raw += column.data;
    raw.resize(record::Padded(raw.size()), '\0');
    column.sizes.clear();
    column.data.clear();
  }
  places_.push_back({offset_, first_, pending_});
  record::ChunkHeader header;
  header.records = pending_;
  header.first = first_;
  WriteChunk(header, raw);
  first_ += pending_;
  pending_ = 0;
  pending_bytes_ = 0;
}

void RecordWriter::Close() {
  if (closed_) return;
  Flush();
  const uint64_t index = offset_;
  record::ChunkHeader header;
  header.kind = record::Kind::kIndex;
  header.first = first_;
  WriteChunk(header, record::Encode(places_));
  file_.Write(record::EncodeTail(index));
  file_.Commit();
  closed_ = true;
}

void RecordWriter::WriteChunk(record::ChunkHeader header, std::string_view raw) {
  OPSTEP_CHECK(raw.size() <= record::kMaxBytes, "cannot write ", shown_, ": a chunk of ",
               raw.size(), " bytes is too large");
  std::string body = schema_bytes_;
  if (options_.codec == RecordCodec::kZlib) {
    uLongf packed = compressBound(raw.size());
    body.resize(schema_bytes_.size() + packed);
    const int result =
        compress2(reinterpret_cast<Bytef*>(body.data() + schema_bytes_.size()), &packed,
                  reinterpret_cast<const Bytef*>(raw.data()), raw.size(), Z_BEST_SPEED);
    OPSTEP_CHECK(result == Z_OK, "cannot write ", shown_, ": no memory to compress a chunk");
    body.resize(schema_bytes_.size() + packed);
    header.codec = RecordCodec::kZlib;
  }
  // A chunk that does not become smaller is stored as it is.
  if (header.codec == RecordCodec::kNone || body.size() - schema_bytes_.size() >= raw.size()) {
    header.codec = RecordCodec::kNone;
    body.resize(schema_bytes_.size());
    body += raw;
  }
  header.id = id_;
  header.schema_bytes = static_cast<uint32_t>(schema_bytes_.size());
  header.stored_bytes = static_cast<uint32_t>(body.size() - schema_bytes_.size());
  header.raw_bytes = static_cast<uint32_t>(raw.size());
  header.body_sum = record::Sum(body);
  file_.Write(record::Encode(header));
  file_.Write(body);
  offset_ += header.bytes();
}

}  // namespace opstep
