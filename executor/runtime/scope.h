#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/tensor.h"

namespace opstep {

// Values that outlast a run, by name. Safe to use from several threads; two runs that write one
// variable at the same time race on its elements, as they would in NumPy.
class Scope {
 public:
  // Null data when there is no such variable.
  Tensor Find(const std::string& name) const;
  // Gives it memory when it has none or its type changed; `made` says whether it did, and `before`
  // is then what was there.
  Tensor FindOrAllocate(const std::string& name, const VarType& type, bool& made, Tensor& before);
  void Set(const std::string& name, Tensor tensor);
  bool Erase(const std::string& name);
  std::vector<std::string> Names() const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Tensor> tensors_;
};

}  // namespace opstep
