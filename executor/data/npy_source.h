// NpySource: records from .npy and .npz files.
#pragma once

#include <string>
#include <vector>

#include "data/source.h"

namespace opstep {

// Rows of arrays in .npy files, or in .npz files, which hold several of them: the first axis counts
// records. Arrays that are split over files follow one another; one such part is in memory at a
// time, from the moment when a record of it is asked for.
class NpySource : public Source {
 public:
  // Of .npy files each is a field, called as `names` says or as the file is without its ending;
  // with more files than names, the first ones are the first part of each field, and so on. Of .npz
  // files each is a part, and `names` chooses the fields; all of them when it is empty.
  NpySource(std::vector<std::string> paths, std::vector<std::string> names);

  // What is wrong with the arguments themselves, whatever is in the files.
  static void Check(const std::vector<std::string>& paths, const std::vector<std::string>& names);

  const std::vector<SourceField>& fields() const override { return fields_; }
  void Restart(uint64_t pass) override;
  bool Next(SourceRecord& record) override;
  uint64_t Skip(uint64_t count) override;
  int64_t size() const override { return first_.back(); }

 private:
  // Types of a part's arrays, and the arrays themselves when they are wanted.
  std::vector<VarType> ReadPart(size_t part, std::vector<Tensor>* arrays) const;
  std::string PlaceOf(size_t part, size_t field) const;
  void AddPart(size_t part);
  void Load(size_t part);

  const std::vector<std::string> paths_;
  const bool packed_;  // .npz
  std::vector<SourceField> fields_;
  std::vector<std::vector<VarType>> types_;  // of the whole arrays, by part and field
  std::vector<int64_t> first_{0};            // record of each part, and behind them all the end
  int64_t next_ = 0;
  size_t loaded_ = SIZE_MAX;
  std::vector<Tensor> arrays_;  // of the part that is loaded
};

}  // namespace opstep
