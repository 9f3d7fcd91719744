// NpySource: records from .npy and .npz files.
#pragma once

#include <string>
#include <vector>

#include "data/source.h"

namespace opstep {

// Rows of arrays in .npy files, or in .npz files, which hold several of them: the first axis counts
// records. Arrays that are split over files follow one another; one such part is in memory at a
// time, from the first request for one of its records.
class NpySource : public Source {
 public:
  // Each .npy file is a field, named by `names` or by the file without its ending; with more files
  // than names, the first ones are the first part of each field, and so on. Each .npz file is a
  // part, and `names` chooses the fields; all of them when it is empty.
  NpySource(std::vector<std::string> paths, std::vector<std::string> names);

  // Checks the arguments themselves, without the files.
  static void Check(const std::vector<std::string>& paths, const std::vector<std::string>& names);

  const std::vector<SourceField>& fields() const override { return fields_; }
  void Restart(uint64_t pass) override;
  bool Next(SourceRecord& record) override;
  uint64_t Skip(uint64_t count) override;
  int64_t size() const override { return first_.back(); }

 private:
  // Types of a part's arrays, and the arrays themselves on request.
  std::vector<VarType> ReadPart(size_t part, std::vector<Tensor>* arrays) const;
  std::string PlaceOf(size_t part, size_t field) const;
  void AddPart(size_t part);
  void Load(size_t part);

  const std::vector<std::string> paths_;
  const bool packed_;  // .npz
  std::vector<SourceField> fields_;
  std::vector<std::vector<VarType>> types_;  // of the whole arrays, by part and field
  std::vector<int64_t> first_{0};            // first record of each part, and then the end
  int64_t next_ = 0;
  size_t loaded_ = SIZE_MAX;
  std::vector<Tensor> arrays_;  // of the part that is loaded
};

}  // namespace opstep
