#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/tensor.h"

namespace opstep {
namespace {

// Large blocks that were freed, kept for the next tensor of their size. A result that is handed out
// at each run would otherwise cost fresh pages of the system each time, which takes longer than
// many an op. Who finds the lock taken goes to the system: nobody waits, and a child that was
// forked while it was taken works on.
class Spares {
 public:
  Spares() { blocks_.reserve(kMost); }

  void* Take(size_t bytes) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return nullptr;
    // The last one is the one most likely to be in a cache.
    const auto it = std::find_if(blocks_.rbegin(), blocks_.rend(),
                                 [&](const Block& block) { return block.bytes == bytes; });
    if (it == blocks_.rend()) return nullptr;
    void* p = it->p;
    total_ -= bytes;
    blocks_.erase(std::next(it).base());
    return p;
  }

  void Put(void* p, size_t bytes) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return std::free(p);
    while (blocks_.size() == kMost || total_ + bytes > kMostBytes) {
      total_ -= blocks_.front().bytes;
      std::free(blocks_.front().p);
      blocks_.erase(blocks_.begin());
    }
    blocks_.push_back({p, bytes});
    total_ += bytes;
  }

  static bool Keeps(size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
    return false;  // it is to see what is freed
#else
    return bytes >= kLeastBytes && bytes <= kMostBytes;
#endif
  }

 private:
  // What is smaller malloc keeps by itself.
  static constexpr size_t kLeastBytes = 128 << 10;
  static constexpr size_t kMostBytes = 64 << 20;
  static constexpr size_t kMost = 16;

  struct Block {
    void* p;
    size_t bytes;
  };

  std::mutex mutex_;
  std::vector<Block> blocks_;  // the oldest first
  size_t total_ = 0;
};

// Never deleted: tensors are freed until the process ends.
Spares& TheSpares() {
  static Spares& spares = *new Spares;
  return spares;
}

std::shared_ptr<void> Owned(void* p, size_t bytes, bool spare) {
  if (p == nullptr) Fail("there is not enough memory for a tensor of ", bytes, " bytes");
  if (!spare) return std::shared_ptr<void>(p, [](void* q) { std::free(q); });
  return std::shared_ptr<void>(p, [bytes](void* q) { TheSpares().Put(q, bytes); });
}

}  // namespace

std::shared_ptr<void> AllocateAligned(size_t bytes) {
  const size_t size = std::max(Align(bytes), kAlignment);
  const bool spare = Spares::Keeps(size);
  void* p = spare ? TheSpares().Take(size) : nullptr;
  if (p == nullptr) p = std::aligned_alloc(kAlignment, size);
  return Owned(p, size, spare);
}

std::shared_ptr<void> AllocateHuge(size_t bytes) {
#if defined(MADV_HUGEPAGE)
  constexpr size_t kPage = 2 << 20;
  if (bytes >= kPage / 2) {
    const size_t size = (bytes + kPage - 1) / kPage * kPage;
    const bool spare = Spares::Keeps(size);
    void* p = spare ? TheSpares().Take(size) : nullptr;
    if (p == nullptr) {
      p = std::aligned_alloc(kPage, size);
      if (p != nullptr) ::madvise(p, size, MADV_HUGEPAGE);
    }
    return Owned(p, size, spare);
  }
#endif
  return AllocateAligned(bytes);
}

}  // namespace opstep
