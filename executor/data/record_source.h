#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/record_reader.h"
#include "data/source.h"

namespace opstep {

// The records of record files with the same fields, one file after the other. Damaged ones are left
// out and counted.
class RecordFileSource final : public Source {
 public:
  explicit RecordFileSource(const std::vector<std::string>& paths);
  const std::vector<SourceField>& fields() const override { return fields_; }
  void Restart(uint64_t pass) override;
  bool Next(SourceRecord& record) override;
  uint64_t Skip(uint64_t count) override;
  int64_t size() const override;
  uint64_t left_out() const override;

 private:
  std::vector<std::unique_ptr<RecordReader>> files_;
  std::vector<SourceField> fields_;
  size_t file_ = 0;
  uint64_t next_ = 0;  // record of the file
  std::shared_ptr<const RecordChunk> chunk_;
};

}  // namespace opstep
