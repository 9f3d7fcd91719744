// Temporary memory of a kernel, for the length of a C++ scope.
#pragma once

#include <cstddef>

namespace opstep {

// Memory for the length of a C++ scope, from a store that each thread keeps for the next time.
// Scopes nest; what a scope took is gone when it ends.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Not initialised, aligned as tensors are.
  void* Take(size_t bytes);
  template <typename T>
  T* Take(size_t count) {
    return static_cast<T*>(Take(count * sizeof(T)));
  }

 private:
  const size_t chunk_before_, used_before_;
};

}  // namespace opstep
