// BatchSource, ShuffleSource and RepeatSource.
#include "data/stages.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "data/waiting.h"

namespace opstep {
namespace {

bool Ragged(const SourceField& field) {
  return field.type.dims.rank() > 0 && field.type.dims[0] < 0;
}

Dims Behind(int64_t rows, const Dims& dims, int from) {
  Dims all{rows};
  for (int i = from; i < dims.rank(); ++i) all.push_back(dims[i]);
  return all;
}

Tensor Numbers(const std::vector<int64_t>& values) {
  Tensor made = Tensor::Allocate({DType::kInt64, {static_cast<int64_t>(values.size())}});
  std::copy(values.begin(), values.end(), made.as<int64_t>());
  return made;
}

}  // namespace

// ---- batch

BatchSource::BatchSource(std::shared_ptr<Source> from, int64_t size, bool drop_last)
    : from_(std::move(from)), size_(static_cast<size_t>(size)), drop_last_(drop_last) {
  OPSTEP_CHECK(size > 0, "a batch of ", size, " records is not possible: take 1 or more");
  for (const SourceField& field : from_->fields()) {
    const Dims& dims = field.type.dims;
    OPSTEP_CHECK(dims.rank() < Dims::kMaxRank, "field '", field.name,
                 "' has too many dimensions to be put into batches");
    if (!Ragged(field)) {
      fields_.push_back({field.name, {field.type.dtype, Behind(-1, dims, 0)}});
      continue;
    }
    fields_.push_back({field.name, {field.type.dtype, Behind(-1, dims, 1)}});
    fields_.push_back({field.name + "@offsets", {DType::kInt64, {-1}}});
    fields_.push_back({field.name + "@steps", {DType::kInt64, {-1}}});
  }
}

bool BatchSource::Next(SourceRecord& batch) {
  std::vector<SourceRecord> records;
  records.reserve(std::min<size_t>(size_, 1024));
  SourceRecord record;
  while (records.size() < size_ && from_->Next(record)) records.push_back(std::move(record));
  if (records.empty() || (drop_last_ && records.size() < size_)) return false;
  batch.clear();
  for (size_t field = 0; field < from_->fields().size(); ++field) Put(field, records, batch);
  return true;
}

void BatchSource::Put(size_t field, const std::vector<SourceRecord>& records,
                      SourceRecord& batch) const {
  const SourceField& of = from_->fields()[field];
  const bool ragged = Ragged(of);
  const Tensor& first = records[0][field];
  std::vector<int64_t> offsets{0};
  int64_t longest = 0;
  for (const SourceRecord& record : records) {
    const Tensor& value = record[field];
    OPSTEP_CHECK(value.dims.rank() == of.type.dims.rank(), "field '", of.name, "' is ",
                 of.type.ToString(), " but a record has ", value.type().ToString());
    const bool alike =
        value.dtype == first.dtype &&
        std::equal(value.dims.begin() + ragged, value.dims.end(), first.dims.begin() + ragged);
    OPSTEP_CHECK(alike, "field '", of.name, "' is ", first.type().ToString(),
                 " in one record of a batch and ", value.type().ToString(), " in another");
    if (!ragged) continue;
    offsets.push_back(offsets.back() + value.dims[0]);
    longest = std::max(longest, value.dims[0]);
  }
  const int64_t rows = ragged ? offsets.back() : static_cast<int64_t>(records.size());
  Tensor& all =
      batch.emplace_back(Tensor::Allocate({first.dtype, Behind(rows, first.dims, ragged ? 1 : 0)}));
  char* to = all.as<char>();
  for (const SourceRecord& record : records) {
    const Tensor& value = record[field];
    if (value.bytes() > 0) std::memcpy(to, value.data, value.bytes());
    to += value.bytes();
  }
  if (!ragged) return;
  batch.push_back(Numbers(offsets));
  std::vector<int64_t> steps(static_cast<size_t>(longest));
  std::iota(steps.begin(), steps.end(), 0);
  batch.push_back(Numbers(steps));
}

uint64_t BatchSource::Skip(uint64_t count) {
  uint64_t records = 0;
  if (__builtin_mul_overflow(count, static_cast<uint64_t>(size_), &records)) records = UINT64_MAX;
  const uint64_t skipped = from_->Skip(records);
  return drop_last_ ? skipped / size_ : (skipped + size_ - 1) / size_;
}

int64_t BatchSource::size() const {
  const int64_t records = from_->size(), size = static_cast<int64_t>(size_);
  if (records < 0) return -1;
  return drop_last_ ? records / size : (records + size - 1) / size;
}

// ---- shuffle

ShuffleSource::ShuffleSource(std::shared_ptr<Source> from, int64_t buffer, uint64_t seed)
    : from_(std::move(from)), capacity_(static_cast<size_t>(buffer)), seed_(seed) {
  OPSTEP_CHECK(buffer > 0, "a shuffle buffer of ", buffer, " records is not possible: take 1 or ",
               "more");
  Restart(0);
}

void ShuffleSource::Restart(uint64_t pass) {
  from_->Restart(pass);
  buffer_.clear();
  more_ = true;
  // Passes of one seed, and seeds that follow one another, have nothing in common.
  state_ = (seed_ + 1) * 0x9e3779b97f4a7c15ull + pass * 0xd1b54a32d192ed03ull;
}

// A uniform number below `bound` (splitmix64; the few numbers that would cause a bias are drawn
// again).
uint64_t ShuffleSource::Below(uint64_t bound) {
  while (true) {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    if (z < -bound % bound) continue;
    return z % bound;
  }
}

bool ShuffleSource::Next(SourceRecord& record) {
  while (more_ && buffer_.size() < capacity_) {
    SourceRecord next;
    more_ = from_->Next(next);
    if (more_) buffer_.push_back(std::move(next));
  }
  if (buffer_.empty()) return false;
  std::swap(buffer_[Below(buffer_.size())], buffer_.back());
  record = std::move(buffer_.back());
  buffer_.pop_back();
  return true;
}

// ---- repeat

RepeatSource::RepeatSource(std::shared_ptr<Source> from, int64_t times)
    : from_(std::move(from)), times_(static_cast<uint64_t>(times)) {
  OPSTEP_CHECK(times >= 0, "data cannot be repeated ", times, " times; 0 means for ever");
}

void RepeatSource::Restart(uint64_t pass) {
  first_ = pass * times_;
  done_ = 0;
  any_ = false;
  from_->Restart(first_);
}

bool RepeatSource::Next(SourceRecord& record) {
  while (true) {
    if (times_ != 0 && done_ == times_) return false;
    if (from_->Next(record)) {
      any_ = true;
      return true;
    }
    OPSTEP_CHECK(any_ || times_ != 0, "the data are empty, so they cannot be repeated for ever");
    any_ = false;
    PollWaiting();
    if (++done_ != times_) from_->Restart(first_ + done_);
  }
}

int64_t RepeatSource::size() const {
  const int64_t once = from_->size();
  int64_t all = 0;
  if (times_ == 0 || once < 0) return -1;
  return __builtin_mul_overflow(once, static_cast<int64_t>(times_), &all) ? -1 : all;
}

}  // namespace opstep
