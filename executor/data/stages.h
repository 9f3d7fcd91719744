// Stages, which are sources made of another source: batch, shuffle, repeat, read ahead.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "data/source.h"

namespace opstep {

// Sources made of another source, which they own.

// Records put together. A field whose first size differs from record to record is given as three
// values (see SourceRecord); all other fields must have one shape within a batch.
class BatchSource final : public Source {
 public:
  // With `drop_last`, records that do not fill a batch at the end of a pass are left out.
  BatchSource(std::shared_ptr<Source> from, int64_t size, bool drop_last);
  const std::vector<SourceField>& fields() const override { return fields_; }
  void Restart(uint64_t pass) override { from_->Restart(pass); }
  bool Next(SourceRecord& batch) override;
  uint64_t Skip(uint64_t count) override;
  int64_t size() const override;
  uint64_t left_out() const override { return from_->left_out(); }

 private:
  void Put(size_t field, const std::vector<SourceRecord>& records, SourceRecord& batch) const;

  const std::shared_ptr<Source> from_;
  const size_t size_;
  const bool drop_last_;
  std::vector<SourceField> fields_;
};

// Records in an order drawn from `seed` and the number of the pass: each is drawn from the `buffer`
// records that come next.
class ShuffleSource final : public Source {
 public:
  ShuffleSource(std::shared_ptr<Source> from, int64_t buffer, uint64_t seed);
  const std::vector<SourceField>& fields() const override { return from_->fields(); }
  void Restart(uint64_t pass) override;
  bool Next(SourceRecord& record) override;
  int64_t size() const override { return from_->size(); }
  uint64_t left_out() const override { return from_->left_out(); }

 private:
  uint64_t Below(uint64_t bound);

  const std::shared_ptr<Source> from_;
  const size_t capacity_;
  const uint64_t seed_;
  uint64_t state_ = 0;
  bool more_ = true;
  std::vector<SourceRecord> buffer_;
};

// Passes one after the other as one pass; `times` 0: forever.
class RepeatSource final : public Source {
 public:
  RepeatSource(std::shared_ptr<Source> from, int64_t times);
  const std::vector<SourceField>& fields() const override { return from_->fields(); }
  void Restart(uint64_t pass) override;
  bool Next(SourceRecord& record) override;
  int64_t size() const override;
  uint64_t left_out() const override { return from_->left_out(); }

 private:
  const std::shared_ptr<Source> from_;
  const uint64_t times_;
  uint64_t first_ = 0;  // the number of the first pass
  uint64_t done_ = 0;
  bool any_ = false;  // the pass has had a record
};

// Reads ahead on its own thread, which calls only its source and waits only for room in the queue.
// It ends with this object, or when the source returns. At most `depth` records wait.
class PrefetchSource final : public Source {
 public:
  PrefetchSource(std::shared_ptr<Source> from, int64_t depth);
  ~PrefetchSource() override;
  const std::vector<SourceField>& fields() const override { return from_->fields(); }
  void Restart(uint64_t pass) override;
  bool Next(SourceRecord& record) override;
  uint64_t Skip(uint64_t count) override;
  int64_t size() const override { return from_->size(); }
  uint64_t left_out() const override;

 private:
  struct Queue;
  // Asks the thread to end; has it ended?
  bool Stop(std::chrono::milliseconds patience);

  const std::shared_ptr<Source> from_;
  const size_t depth_;
  std::shared_ptr<Queue> queue_;
};

}  // namespace opstep
