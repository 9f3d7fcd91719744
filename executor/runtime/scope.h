// Scope: values that outlast a run, by name.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
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
// A value may have an owner, a number: `owner` is the caller, and a value of another owner is a
// ForeignValue. Nobody (0) finds all values, and every owner finds values without an owner, which
// it then owns. Owners may also have a value each under one name: all but the first keep theirs
// apart, under another key.
class Scope {
 public:
  // Null data when there is no such variable.
  Tensor Find(const std::string& name) const;
  Tensor Find(const std::string& name, uint64_t owner);
  // Gives it memory when it has none or its type changed; `made` says whether it did; then `before`
  // is the old value.
  Tensor FindOrAllocate(const std::string& name, const VarType& type, uint64_t owner, bool& made,
                        Tensor& before);
  // Keeps the owner.
  void Set(const std::string& name, Tensor tensor);
  uint64_t OwnerOf(const std::string& name) const;
  void SetOwner(const std::string& name, uint64_t owner);
  // From now on the owner's value of that name is under a free key, such as "name@2".
  void SetApart(const std::string& name, uint64_t owner);
  // The owners whose values of that name are apart.
  std::vector<uint64_t> OwnersApart(const std::string& name) const;
  // Where the owner's value of that name is; usually under the name itself.
  std::string KeyOf(const std::string& name, uint64_t owner) const;
  // Gives all values of one owner to another. Those that it kept apart are forgotten when they
  // belong to nobody.
  void HandOver(uint64_t from, uint64_t to);
  bool Erase(const std::string& name);
  std::vector<std::string> Names() const;

 private:
  struct Entry {
    Tensor tensor;
    uint64_t owner = 0;
    void Own(const std::string& name, uint64_t wanted);
  };
  const std::string& Key(const std::string& name, uint64_t owner) const {
    return apart_.empty() ? name : KeyApart(name, owner);
  }
  const std::string& KeyApart(const std::string& name, uint64_t owner) const;

  mutable std::mutex mutex_;
  std::unordered_map<std::string, Entry> entries_;
  // Names → owners → keys.
  std::map<std::string, std::map<uint64_t, std::string>> apart_;
};

}  // namespace opstep
