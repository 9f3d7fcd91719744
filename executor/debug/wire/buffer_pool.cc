// BufferPool: keeps large buffers while a client reads a tensor.
#include "debug/wire/buffer_pool.h"

#include <mutex>
#include <utility>
#include <vector>

namespace opstep {
namespace {

// The number of buffers in flight at a time; malloc itself reuses smaller ones.
constexpr size_t kMost = 16;
constexpr size_t kSmallest = 64 << 10;

// A thread that finds it taken goes on without a buffer, so a child that was forked meanwhile still
// works.
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
