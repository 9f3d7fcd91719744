// LatestCache: a cache that forgets entries without recent use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace opstep {

// Values by key, for the latest keys. The entries are a young and an old half: when the young half
// is full, by count or by bytes, it replaces the old half; a found entry becomes young.
template <typename T>
class LatestCache {
 public:
  explicit LatestCache(size_t most, size_t most_bytes = SIZE_MAX)
      : half_(most / 2), half_bytes_(most_bytes / 2) {}

  // A default T when there is none.
  T Find(std::string_view key) {
    if (const auto it = young_.find(key); it != young_.end()) return it->second.made;
    const auto it = old_.find(key);
    if (it == old_.end()) return T();
    auto node = old_.extract(it);
    T found = node.mapped().made;
    MakeRoom();
    bytes_ += node.mapped().bytes;
    young_.insert(std::move(node));
    return found;
  }

  void Put(std::string_view key, T made, size_t bytes = 0) {
    MakeRoom();
    bytes_ += bytes;
    young_.emplace(key, Entry{std::move(made), bytes});
  }

  size_t size() const { return young_.size() + old_.size(); }

 private:
  void MakeRoom() {
    if (young_.size() < half_ && bytes_ < half_bytes_) return;
    // Freed last: freeing may call this cache again.
    const Map gone = std::exchange(old_, std::move(young_));
    young_.clear();
    bytes_ = 0;
  }

  struct Entry {
    T made;
    size_t bytes;
  };

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
  };
  using Map = std::unordered_map<std::string, Entry, Hash, std::equal_to<>>;
  const size_t half_, half_bytes_;
  size_t bytes_ = 0;  // of the young
  Map young_, old_;
};

}  // namespace opstep
