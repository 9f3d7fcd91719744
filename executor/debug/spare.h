#pragma once

#include <string>

namespace opstep {

// Memory of pieces of tensors that were sent, for those that follow: fresh pages cost more than all
// the copying. Thread-safe; holds nothing unless somebody reads.
class Spare {
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
