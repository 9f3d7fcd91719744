#include "runtime/scope.h"

#include <algorithm>
#include <utility>

namespace opstep {

Tensor Scope::Find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? Tensor() : it->second;
}

Tensor Scope::FindOrAllocate(const std::string& name, const VarType& type, bool& made,
                             Tensor& before) {
  const std::lock_guard lock(mutex_);
  Tensor& tensor = tensors_[name];
  made = !tensor || tensor.type() != type;
  if (made) before = std::exchange(tensor, Tensor::Allocate(type));
  return tensor;
}

void Scope::Set(const std::string& name, Tensor tensor) {
  const std::lock_guard lock(mutex_);
  tensors_[name] = std::move(tensor);
}

bool Scope::Erase(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return tensors_.erase(name) != 0;
}

std::vector<std::string> Scope::Names() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace opstep
