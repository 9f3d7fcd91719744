// The store of temporary memory that each thread keeps between kernels.
#include "ops/lib/scratch.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/tensor.h"

namespace opstep {
namespace {

// Chunks never move while they are in use; unused chunks are joined.
struct Store {
  struct Chunk {
    std::shared_ptr<void> memory;
    size_t size = 0;
  };
  std::vector<Chunk> chunks;
  size_t chunk = 0;  // the one in use
  size_t used = 0;   // of it
  int scopes = 0;
};

thread_local Store store;

}  // namespace

Scratch::Scratch() : chunk_before_(store.chunk), used_before_(store.used) { ++store.scopes; }

Scratch::~Scratch() {
  store.chunk = chunk_before_;
  store.used = used_before_;
  if (--store.scopes > 0 || store.chunks.size() < 2) return;
  size_t total = 0;
  for (const Store::Chunk& chunk : store.chunks) total += chunk.size;
  store.chunks.clear();
  // Without memory the next Take reports the error.
  store.chunks.push_back({nullptr, total});
}

void* Scratch::Take(size_t bytes) {
  bytes = Align(std::max<size_t>(bytes, 1));
  const auto fits = [&] {
    return store.chunk < store.chunks.size() &&
           store.used + bytes <= store.chunks[store.chunk].size;
  };
  while (!fits() && store.chunk + 1 < store.chunks.size()) {
    ++store.chunk;
    store.used = 0;
  }
  if (!fits()) {
    store.chunks.push_back({nullptr, bytes});
    store.chunk = store.chunks.size() - 1;
    store.used = 0;
  }
  Store::Chunk& chunk = store.chunks[store.chunk];
  if (chunk.memory == nullptr) chunk.memory = AllocateAligned(chunk.size);
  void* taken = static_cast<char*>(chunk.memory.get()) + store.used;
  store.used += bytes;
  return taken;
}

}  // namespace opstep
