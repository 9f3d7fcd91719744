// Source: the interface that gives records to a reader.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/tensor.h"

namespace opstep {

// One value of each record that a reader gives. A size of -1 may differ from record to record.
struct SourceField {
  std::string name;
  VarType type;
};

// One value for each field. A field whose first size differs between the records of a batch becomes
// three values there: the rows of all records, the offset of each, and 0, 1, 2 … up to the length
// of the longest.
using SourceRecord = std::vector<Tensor>;

// Gives records one after the other: the value of a reader variable. Used by one thread at a time.
// Errors are sentences that name the file.
class Source {
 public:
  virtual ~Source() = default;
  // It has been read: the next user restarts it.
  bool used = false;
  virtual const std::vector<SourceField>& fields() const = 0;
  // Begins pass number `pass`, from 0: a random order differs in each pass, and is the same in
  // every process. A new source is at the start of pass 0.
  virtual void Restart(uint64_t pass) = 0;
  // The next record of the pass; false at its end. The tensors own their memory or share its owner,
  // and nobody writes there again.
  virtual bool Next(SourceRecord& record) = 0;
  // As if Next had been called `count` times; returns the number of skipped records.
  virtual uint64_t Skip(uint64_t count);
  // The number of records in a whole pass, or -1 when unknown. Ignores damage.
  virtual int64_t size() const { return -1; }
  // The number of damaged records left out of this pass so far.
  virtual uint64_t left_out() const { return 0; }
};

}  // namespace opstep
