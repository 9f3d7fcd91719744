// Source: the interface of what gives records to a reader.
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
// three values there: the rows of all of them, where each one's begin, and 0, 1, 2 … up to the
// length of the longest.
using SourceRecord = std::vector<Tensor>;

// Gives records one after the other: what reader variables hold. Used by one thread at a time.
// Errors are sentences that name the file.
class Source {
 public:
  virtual ~Source() = default;
  // Somebody has read from it: who goes through it next restarts it.
  bool used = false;
  virtual const std::vector<SourceField>& fields() const = 0;
  // Begins pass number `pass`, from 0: an order that is drawn is another one in each pass, and the
  // same one in every process. A new source stands at the start of pass 0.
  virtual void Restart(uint64_t pass) = 0;
  // The next record of the pass; false at its end. The tensors own their memory, or what owns it,
  // and nobody writes there again.
  virtual bool Next(SourceRecord& record) = 0;
  // As if Next had been called `count` times; gives how many records were there.
  virtual uint64_t Skip(uint64_t count);
  // How many records a whole pass has, or -1 when that is not known. Says nothing of damage.
  virtual int64_t size() const { return -1; }
  // How many records of this pass were damaged so far and are left out.
  virtual uint64_t left_out() const { return 0; }
};

}  // namespace opstep
