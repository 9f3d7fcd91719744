// BufferPool: reuses the memory of sent messages.
#pragma once

#include <string>

namespace opstep {

// Pieces of tensors that are sent use the memory of earlier ones: fresh pages cost more than the
// copying. Thread-safe; holds nothing unless a client reads.
class BufferPool {
 public:
  // From the first piece of a tensor on.
  static void Keep();
  // No client reads any more.
  static void Drop();
  // Empty, with the capacity of an earlier piece if there is one.
  static std::string Take();
  static void Give(std::string memory);
};

}  // namespace opstep
