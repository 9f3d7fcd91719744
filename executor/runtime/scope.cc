// Scope: finding, making and owning values.
#include "runtime/scope.h"

#include <algorithm>
#include <utility>

namespace opstep {

Tensor Scope::Find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(name);
  return it == entries_.end() ? Tensor() : it->second.tensor;
}

void Scope::Entry::Own(const std::string& name, uint64_t wanted) {
  if (owner == wanted || wanted == 0) return;
  if (owner != 0 && tensor) throw ForeignValue("'" + name + "' belongs to another program");
  owner = wanted;
}

Tensor Scope::Find(const std::string& name, uint64_t owner) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(Key(name, owner));
  if (it == entries_.end()) return Tensor();
  it->second.Own(name, owner);
  return it->second.tensor;
}

Tensor Scope::FindOrAllocate(const std::string& name, const VarType& type, uint64_t owner,
                             bool& made, Tensor& before) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[Key(name, owner)];
  entry.Own(name, owner);
  Tensor& tensor = entry.tensor;
  made = !tensor || tensor.type() != type;
  if (made) before = std::exchange(tensor, Tensor::Allocate(type));
  return tensor;
}

void Scope::Set(const std::string& name, Tensor tensor) {
  const std::lock_guard lock(mutex_);
  entries_[name].tensor = std::move(tensor);
}

uint64_t Scope::OwnerOf(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(name);
  return it == entries_.end() ? 0 : it->second.owner;
}

void Scope::SetOwner(const std::string& name, uint64_t owner) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(name);
  if (it != entries_.end()) it->second.owner = owner;
}

void Scope::HandOver(uint64_t from, uint64_t to) {
  const std::lock_guard lock(mutex_);
  for (auto& [name, entry] : entries_) {
    if (entry.owner == from) entry.owner = to;
  }
  for (auto& [name, keys] : apart_) {
    auto moved = keys.extract(from);
    if (moved.empty()) continue;
    if (to == 0) {
      entries_.erase(moved.mapped());
    } else {
      moved.key() = to;
      keys.insert(std::move(moved));
    }
  }
}

void Scope::SetApart(const std::string& name, uint64_t owner) {
  const std::lock_guard lock(mutex_);
  std::map<uint64_t, std::string>& keys = apart_[name];
  const auto is_taken = [&](const std::string& key) {
    return entries_.contains(key) ||
           std::any_of(keys.begin(), keys.end(), [&](auto& item) { return item.second == key; });
  };
  int number = 2;
  while (is_taken(Cat(name, "@", number))) ++number;
  keys[owner] = Cat(name, "@", number);
}

std::vector<uint64_t> Scope::OwnersApart(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  std::vector<uint64_t> owners;
  if (const auto it = apart_.find(name); it != apart_.end()) {
    for (const auto& [owner, key] : it->second) owners.push_back(owner);
  }
  return owners;
}

std::string Scope::KeyOf(const std::string& name, uint64_t owner) const {
  const std::lock_guard lock(mutex_);
  return Key(name, owner);
}

const std::string& Scope::KeyApart(const std::string& name, uint64_t owner) const {
  const auto keys = apart_.find(name);
  if (keys == apart_.end()) return name;
  const auto key = keys->second.find(owner);
  return key == keys->second.end() ? name : key->second;
}

bool Scope::Erase(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return entries_.erase(name) != 0;
}

std::vector<std::string> Scope::Names() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace opstep
