// BufferPool: memory of messages that were sent, for those that follow.
#pragma once

#include <string>

namespace opstep {

// Pieces of tensors that are sent use the memory of earlier ones: fresh pages cost more than all
// the copying. Thread-safe; holds nothing unless somebody reads.
class BufferPool {
 public:
  // From the first piece of a tensor on.
  static void Keep();
  // Nobody reads any more.
  static void Drop();
  // Empty, with the capacity of an earlier piece if there is one.
  static std::string Take();
  static void Give(std::string memory);
};

}  // namespace opstep
