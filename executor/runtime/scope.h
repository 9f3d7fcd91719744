// Scope: values that outlast a run, by name.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/tensor.h"

namespace opstep {

// A run found a value that belongs to another program.
class ForeignValue : public Error {
 public:
  using Error::Error;
};

// Values that outlast a run, by name. Safe to use from several threads; two runs that write one
// variable at the same time race on its elements, as they would in NumPy.
//
// A value may have an owner, a number: `owner` says for whom it is looked for, and a value that has
// another owner is a ForeignValue. Nobody (0) finds all values, and all find what is nobody's,
// which becomes theirs.
class Scope {
 public:
  // Null data when there is no such variable.
  Tensor Find(const std::string& name) const;
  Tensor Find(const std::string& name, uint64_t owner);
  // Gives it memory when it has none or its type changed; `made` says whether it did, and `before`
  // is then what was there.
  Tensor FindOrAllocate(const std::string& name, const VarType& type, uint64_t owner, bool& made,
                        Tensor& before);
  // The owner stays as it was.
  void Set(const std::string& name, Tensor tensor);
  uint64_t OwnerOf(const std::string& name) const;
  void SetOwner(const std::string& name, uint64_t owner);
  // All that is of one owner becomes the other's.
  void HandOver(uint64_t from, uint64_t to);
  bool Erase(const std::string& name);
  std::vector<std::string> Names() const;

 private:
  struct Entry {
    Tensor tensor;
    uint64_t owner = 0;
    void Own(const std::string& name, uint64_t wanted);
  };
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace opstep
