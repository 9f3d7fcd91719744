// What is asked for again and again outlasts what was made once.
#include <cassert>
#include <memory>

#include "base/latest_cache.h"

using opstep::LatestCache;

int main() {
  LatestCache<std::shared_ptr<int>> cache(8);
  assert(cache.Find("a") == nullptr);
  const auto kept = std::make_shared<int>(1);
  cache.Put("kept", kept);
  const std::weak_ptr<int> once = [&] {
    auto made = std::make_shared<int>(2);
    cache.Put("once", made);
    return std::weak_ptr<int>(made);
  }();
  assert(!once.expired());
  for (int i = 0; i < 100; ++i) {
    cache.Put("key " + std::to_string(i), std::make_shared<int>(i));
    assert(cache.Find("kept") == kept);
    assert(*cache.Find("key " + std::to_string(i)) == i);
    assert(cache.size() <= 8);
  }
  assert(once.expired() && cache.Find("once") == nullptr && cache.Find("key 0") == nullptr);
  assert(kept.use_count() == 2);

  LatestCache<std::shared_ptr<int>> small(1000, 100);
  for (int i = 0; i < 50; ++i) {
    small.Put(std::to_string(i), std::make_shared<int>(i), 30);
    assert(small.size() <= 4 && *small.Find(std::to_string(i)) == i);
  }
}
