// Aligned memory of tensors, and the freed blocks that are kept for the next tensor.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/tensor.h"

namespace opstep {
namespace {

// Large blocks that were freed, kept for the next tensor of their size. Otherwise a result that is
// handed out at each run would cost fresh pages of the system each time, which takes longer than
// many ops. A thread that finds the lock taken allocates from the system: no thread waits, and a
// child that was forked while it was taken still works.
class Spares {
 public:
  Spares() { blocks_.reserve(kMost); }

  void* Take(size_t bytes) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return nullptr;
    // The last block is most likely to be in a cache.
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
  // malloc itself keeps smaller blocks.
  static constexpr size_t kLeastBytes = 128 << 10;
  static constexpr size_t kMostBytes = 64 << 20;
  static constexpr size_t kMost = 256;

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

// Small memory, with the count of its owners before it, and the thread's freed chunks: each op of
// imperative mode makes a small tensor.
class SmallChunks {
 public:
#if defined(__SANITIZE_ADDRESS__)
  static constexpr size_t kMostBytes = 0;  // it is to see what is freed
#else
  static constexpr size_t kMostBytes = 2048;
#endif
  static constexpr size_t kHeader = kAlignment;  // for the count of owners

  // Trivially destructible: tensors are freed after the thread's other variables have gone.
  struct Lists {
    static constexpr size_t kMost = 64;  // of each size
    struct List {
      void* first;
      size_t size;
    };
    std::array<List, kMostBytes / kAlignment + 1> lists;
    bool ended;
  };

  static void* Take(size_t bytes) {
    Lists::List& list = Mine().lists[bytes / kAlignment];
    if (list.first == nullptr) return std::aligned_alloc(kAlignment, kHeader + bytes);
    --list.size;
    return std::exchange(list.first, *static_cast<void**>(list.first));
  }

  static void Put(void* chunk, size_t bytes) {
    Lists::List& list = Mine().lists[bytes / kAlignment];
    if (mine_.ended || list.size == Lists::kMost) return std::free(chunk);
    *static_cast<void**>(chunk) = std::exchange(list.first, chunk);
    ++list.size;
  }

 private:
  static Lists& Mine() {
    // Touched at each use, so that it exists and empties the lists at the thread's end.
    thread_local struct End {
      bool there = true;
      ~End() {
        mine_.ended = true;
        for (Lists::List& list : mine_.lists) {
          while (list.first != nullptr)
            std::free(std::exchange(list.first, *static_cast<void**>(list.first)));
        }
      }
    } end;
    (void)end.there;
    return mine_;
  }

  static thread_local constinit Lists mine_;
};
thread_local constinit SmallChunks::Lists SmallChunks::mine_{};

// Puts the count of owners into the chunk's header, and releases the chunk with the last of them.
template <typename T>
struct InHeader {
  using value_type = T;
  void* chunk;
  size_t bytes;

  InHeader(void* chunk, size_t bytes) : chunk(chunk), bytes(bytes) {}
  template <typename U>
  InHeader(const InHeader<U>& other) : chunk(other.chunk), bytes(other.bytes) {}

  T* allocate(size_t) {
    static_assert(sizeof(T) <= SmallChunks::kHeader && alignof(T) <= kAlignment);
    return static_cast<T*>(chunk);
  }
  void deallocate(T*, size_t) { SmallChunks::Put(chunk, bytes); }
  bool operator==(const InHeader&) const = default;
};

std::shared_ptr<void> AllocateSmall(size_t bytes) {
  void* chunk = SmallChunks::Take(bytes);
  if (chunk == nullptr) Fail("there is not enough memory for a tensor of ", bytes, " bytes");
  void* data = static_cast<char*>(chunk) + SmallChunks::kHeader;
  return std::shared_ptr<void>(
      data, [](void*) {}, InHeader<char>(chunk, bytes));
}

std::shared_ptr<void> Owned(void* p, size_t bytes, bool spare) {
  if (p == nullptr) Fail("there is not enough memory for a tensor of ", bytes, " bytes");
  if (!spare) return std::shared_ptr<void>(p, [](void* q) { std::free(q); });
  return std::shared_ptr<void>(p, [bytes](void* q) { TheSpares().Put(q, bytes); });
}

}  // namespace

std::shared_ptr<void> AllocateAligned(size_t bytes) {
  const size_t size = std::max(Align(bytes), kAlignment);
  if (size <= SmallChunks::kMostBytes) return AllocateSmall(size);
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
