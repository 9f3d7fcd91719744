// RecordReader: reads a record file, also a damaged one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/record_format.h"

namespace opstep {

// Records that were written together, checked and unpacked.
class RecordChunk {
 public:
  // Empty when the payload does not match schema and count.
  static std::shared_ptr<const RecordChunk> Make(const RecordSchema& schema, uint64_t first,
                                                 uint32_t records, std::shared_ptr<void> raw,
                                                 size_t bytes);

  uint64_t first() const { return first_; }
  uint32_t records() const { return records_; }
  size_t fields() const { return columns_.size(); }
  uint64_t end() const { return first_ + records_; }
  // A field of the i-th record of the chunk. The tensor keeps the chunk's memory alive.
  Tensor Value(uint32_t i, size_t field) const;

 private:
  struct Column {
    VarType type;
    const int64_t* sizes = nullptr;  // the open ones of each record
    char* data = nullptr;
    std::vector<size_t> starts;  // of each record's data, when sizes are open
  };
  bool AddColumn(const VarType& type, char*& at, size_t& left);

  uint64_t first_ = 0;
  uint32_t records_ = 0;
  std::shared_ptr<void> raw_;
  std::vector<Column> columns_;
};

// The unreadable parts of a record file.
struct RecordLoss {
  uint64_t chunks = 0;   // damaged ones that were seen
  uint64_t records = 0;  // as far as the numbers in the neighbouring chunks show
  uint64_t bytes = 0;    // that belong to nothing intact
  bool torn = false;     // the index at the end is missing: records after the last chunk may be too
  bool operator==(const RecordLoss&) const = default;
  bool any() const { return *this != RecordLoss{}; }
};

// The effect of damage on reading: an error, or the intact part is read and the loss counted.
enum class Damage { kFail, kSkip };
// Of "fail" and "skip".
Damage DamageNamed(const std::string& name);

// Reads a record file. When it finds damage, it searches the whole file once for intact parts; from
// then on loss() is exact. One thread at a time.
class RecordReader {
 public:
  RecordReader(const std::string& path, Damage damage);

  const std::string& path() const { return file_.path(); }
  const RecordSchema& schema() const { return schema_; }
  // The number of written records, as far as known; lost ones keep their numbers.
  uint64_t records() const { return records_; }
  size_t chunks() const { return places_.size(); }
  // The chunk with the first record from `index` on that can be read; none at the end.
  std::shared_ptr<const RecordChunk> ChunkFrom(uint64_t index);
  const RecordLoss& loss() const { return loss_; }
  // "'train.rec' is damaged at byte 1234: …", when there is a loss.
  std::string DescribeLoss() const;
  // Reads and checks everything; damage is not an error here.
  const RecordLoss& Verify();

 private:
  std::optional<record::ChunkHeader> HeaderAt(uint64_t offset) const;
  // Schema and payload; false when they are damaged.
  bool ReadBody(const record::ChunkHeader& header, uint64_t offset, RecordSchema& schema,
                std::shared_ptr<void>& raw) const;
  std::shared_ptr<const RecordChunk> ReadChunk(const record::ChunkHeader& header,
                                               uint64_t offset) const;
  bool ReadFileHeader();
  bool ReadIndex();
  std::optional<std::vector<record::Place>> IndexAt(const record::ChunkHeader& header,
                                                    uint64_t offset) const;
  // The next offset where a chunk may begin; the file's size when there is none.
  uint64_t FindSync(uint64_t from) const;
  void LearnSchema();
  void Recover();
  // Throws the error for damage, unless it may be skipped.
  void CheckWhole() const;

  const InputFile file_;
  const Damage damage_;
  RecordSchema schema_;
  uint64_t id_ = 0;
  uint64_t header_bytes_ = 0;  // 0 when the file's header is damaged
  bool known_ = false;         // schema_ and id_
  bool recovered_ = false;
  uint64_t records_ = 0;
  std::vector<record::Place> places_;
  RecordLoss loss_;
  uint64_t damaged_at_ = 0;                  // the first byte of the loss
  std::shared_ptr<const RecordChunk> last_;  // most reads are near the last one
};

}  // namespace opstep
