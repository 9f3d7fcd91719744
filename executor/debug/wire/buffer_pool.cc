// BufferPool: keeps large buffers while somebody reads a tensor.
#include "debug/wire/buffer_pool.h"

#include <mutex>
#include <utility>
#include <vector>

namespace opstep {
namespace {

// As many as are under way at a time; smaller ones are found again by malloc itself.
constexpr size_t kMost = 16;
constexpr size_t kSmallest = 64 << 10;

// Who finds it taken does without: a child that was forked while it was taken works on.
using Lock = std::unique_lock<std::mutex>;
std::mutex mutex;
bool keeping = false;
// Never destroyed: a channel's thread may outlive the statics.
std::vector<std::string>& kept = *new std::vector<std::string>;

}  // namespace

void BufferPool::Keep() {
  const Lock lock(mutex, std::try_to_lock);
  if (lock) keeping = true;
}

void BufferPool::Drop() {
  std::vector<std::string> dropped;
  const Lock lock(mutex, std::try_to_lock);
  if (!lock) return;
  keeping = false;
  dropped.swap(kept);
}

std::string BufferPool::Take() {
  const Lock lock(mutex, std::try_to_lock);
  if (!lock || kept.empty()) return {};
  std::string memory = std::move(kept.back());
  kept.pop_back();
  memory.clear();
  return memory;
}

void BufferPool::Give(std::string memory) {
  if (memory.capacity() < kSmallest) return;
  const Lock lock(mutex, std::try_to_lock);
  if (lock && keeping && kept.size() < kMost) kept.push_back(std::move(memory));
}

}  // namespace opstep
