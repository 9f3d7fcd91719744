// RecordChunk: columns of a chunk's payload, and the values of one record.
#include <algorithm>
#include <cstring>

#include "data/record_reader.h"

namespace opstep {

std::shared_ptr<const RecordChunk> RecordChunk::Make(const RecordSchema& schema, uint64_t first,
                                                     uint32_t records, std::shared_ptr<void> raw,
                                                     size_t bytes) {
  auto chunk = std::make_shared<RecordChunk>();
  chunk->first_ = first;
  chunk->records_ = records;
  chunk->raw_ = std::move(raw);
  char* at = static_cast<char*>(chunk->raw_.get());
  for (const RecordField& field : schema) {
    if (!chunk->AddColumn(field.type, at, bytes)) return nullptr;
  }
  return bytes == 0 ? chunk : nullptr;
}

// `at` and `left` are the unread part of the payload.
bool RecordChunk::AddColumn(const VarType& type, char*& at, size_t& left) {
  Column column{type, nullptr, nullptr, {}};
  const auto open = static_cast<size_t>(record::OpenSizes(type.dims));
  uint64_t fixed = SizeOf(type.dtype);  // at most record::kMaxBytes
  for (const int64_t size : type.dims) fixed *= size == -1 ? 1 : static_cast<uint64_t>(size);
  uint64_t total = fixed * records_;
  if (open > 0) {
    const size_t bytes = records_ * open * sizeof(int64_t);
    if (bytes > left) return false;
    column.sizes = reinterpret_cast<const int64_t*>(at);
    at += bytes;
    left -= bytes;
    total = 0;
    column.starts.reserve(records_);
    for (size_t i = 0; i < records_; ++i) {
      column.starts.push_back(total);
      uint64_t value = fixed;
      for (size_t k = 0; k < open; ++k) {
        // No overflow: neither factor is above 2^28.
        const int64_t size = column.sizes[i * open + k];
        if (size < 0 || size > record::kMaxBytes) return false;
        value *= static_cast<uint64_t>(size);
        if (value > left) return false;
      }
      total += value;
      if (total > left) return false;
    }
  }
  const uint64_t padded = record::Padded(total);
  if (padded > left) return false;
  column.data = at;
  if (type.dtype == DType::kBool) {
    if (!std::all_of(at, at + total, [](char v) { return v == 0 || v == 1; })) return false;
  }
  at += padded;
  left -= padded;
  columns_.push_back(std::move(column));
  return true;
}

Tensor RecordChunk::Value(uint32_t i, size_t field) const {
  const Column& column = columns_[field];
  VarType type = column.type;
  if (column.sizes != nullptr) {
    const int64_t* size = column.sizes + size_t{i} * record::OpenSizes(type.dims);
    for (int d = 0; d < type.dims.rank(); ++d) {
      if (column.type.dims[d] == -1) type.dims[d] = *size++;
    }
  }
  Tensor value(type);
  value.data = column.data + (column.sizes != nullptr ? column.starts[i] : i * value.bytes());
  value.owner = raw_;
  return value;
}

}  // namespace opstep
