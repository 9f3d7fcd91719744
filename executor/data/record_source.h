// RecordFileSource: records from record files.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/record_reader.h"
#include "data/source.h"

namespace opstep {

// The damaged parts that sources have left out in this process, by file.
std::map<std::string, RecordLoss> RecordsLeftOut();

// The records of record files with the same fields, one file after the other. Damage is an error,
// or the damaged part is left out, counted and reported once on the error output.
class RecordFileSource final : public Source {
 public:
  RecordFileSource(const std::vector<std::string>& paths, Damage damage);
  const std::vector<SourceField>& fields() const override { return fields_; }
  void Restart(uint64_t pass) override;
  bool Next(SourceRecord& record) override;
  uint64_t Skip(uint64_t count) override;
  int64_t size() const override;
  uint64_t left_out() const override;

 private:
  // Counts the damage found.
  void Tell(const RecordReader& file) const;

  std::vector<std::unique_ptr<RecordReader>> files_;
  std::vector<SourceField> fields_;
  size_t file_ = 0;
  uint64_t next_ = 0;  // record of the file
  std::shared_ptr<const RecordChunk> chunk_;
};

}  // namespace opstep
