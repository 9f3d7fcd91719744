// RecordFileSource, and the records left out because of damage.
#include "data/record_source.h"

#include <algorithm>
#include <cstdio>
#include <mutex>

#include "base/error.h"

namespace opstep {
namespace {

std::mutex left_out_mutex;
std::map<std::string, RecordLoss>& LeftOut() {
  static auto* left_out = new std::map<std::string, RecordLoss>;
  return *left_out;
}

}  // namespace

std::map<std::string, RecordLoss> RecordsLeftOut() {
  std::lock_guard lock(left_out_mutex);
  return LeftOut();
}

void RecordFileSource::Tell(const RecordReader& file) const {
  if (!file.loss().any()) return;
  std::lock_guard lock(left_out_mutex);
  RecordLoss& known = LeftOut()[file.path()];
  if (known == file.loss()) return;
  known = file.loss();
  std::fprintf(stderr, "opstep: %s and left out\n", file.DescribeLoss().c_str());
}

RecordFileSource::RecordFileSource(const std::vector<std::string>& paths, Damage damage) {
  OPSTEP_CHECK(!paths.empty(), "no record file was named: give one path or more");
  for (const std::string& path : paths) {
    files_.push_back(std::make_unique<RecordReader>(path, damage));
    Tell(*files_.back());
    OPSTEP_CHECK(files_.back()->schema() == files_[0]->schema(), Quoted(path),
                 " has other fields than ", Quoted(paths[0]));
  }
  for (const RecordField& field : files_[0]->schema()) fields_.push_back({field.name, field.type});
}

void RecordFileSource::Restart(uint64_t) {
  file_ = 0;
  next_ = 0;
  chunk_ = nullptr;
}

bool RecordFileSource::Next(SourceRecord& record) {
  while (chunk_ == nullptr || next_ >= chunk_->end()) {
    if (file_ == files_.size()) return false;
    chunk_ = files_[file_]->ChunkFrom(next_);
    Tell(*files_[file_]);
    if (chunk_ != nullptr) {
      next_ = std::max(next_, chunk_->first());
    } else {
      ++file_;
      next_ = 0;
    }
  }
  const auto i = static_cast<uint32_t>(next_++ - chunk_->first());
  record.clear();
  for (size_t field = 0; field < fields_.size(); ++field) record.push_back(chunk_->Value(i, field));
  return true;
}

uint64_t RecordFileSource::Skip(uint64_t count) {
  uint64_t skipped = 0;
  SourceRecord record;
  while (skipped < count && Next(record)) {
    // The rest of the chunk need not be checked.
    const uint64_t more = std::min(count - ++skipped, chunk_->end() - next_);
    skipped += more;
    next_ += more;
  }
  return skipped;
}

int64_t RecordFileSource::size() const {
  int64_t records = 0;
  for (const auto& file : files_) records += static_cast<int64_t>(file->records());
  return records;
}

uint64_t RecordFileSource::left_out() const {
  uint64_t records = 0;
  for (const auto& file : files_) records += file->loss().records;
  return records;
}

}  // namespace opstep
