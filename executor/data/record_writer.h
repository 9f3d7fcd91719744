// RecordWriter: writes a record file.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/record_format.h"

namespace opstep {

// Writes a record file, which gets its name only when it is closed.
class RecordWriter {
 public:
  struct Options {
    RecordCodec codec = RecordCodec::kZlib;
    size_t chunk_bytes = 1 << 20;  // a chunk ends with the record that reaches this
  };

  RecordWriter(const std::string& path, RecordSchema schema, const Options& options);

  const RecordSchema& schema() const { return schema_; }
  uint64_t records() const { return first_ + pending_; }
  // A tensor for each field, in the schema's order.
  void Write(std::span<const Tensor> values);
  // The same with one more dimension in front: the number of records.
  void WriteBatch(std::span<const Tensor> batch);
  // Ends the chunk here: less is lost when the file is damaged after it.
  void Flush();
  // Writes the index and gives the file its name. Without it no file remains.
  void Close();

 private:
  // The values of the chunk's records in one field.
  struct Column {
    std::string sizes;
    std::string data;
  };

  void Check(const RecordField& field, const VarType& type) const;
  void Append(std::span<const Tensor> values);
  void WriteChunk(record::ChunkHeader header, std::string_view raw);

  const std::string shown_;
  const RecordSchema schema_;
  const std::string schema_bytes_;
  const Options options_;
  OutputFile file_;
  uint64_t id_ = 0;
  uint64_t offset_ = 0;
  uint64_t first_ = 0;
  uint32_t pending_ = 0;
  size_t pending_bytes_ = 0;
  std::vector<Column> columns_;
  std::vector<record::Place> places_;
  bool closed_ = false;
};

}  // namespace opstep
