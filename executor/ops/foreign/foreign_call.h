// How the executor calls functions of another library.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/tensor.h"

namespace opstep {

// The functions that other libraries lend to this process. The bindings set it.
struct ForeignCalls {
  // The function with this key, which lives as long as the pointer; null: this process has none.
  std::shared_ptr<const void> (*find)(const std::string& key);
  // The tensors are borrowed for the call; it writes every element of the outputs.
  void (*call)(const void* function, const std::vector<const Tensor*>& inputs,
               const std::vector<Tensor*>& outputs);
};

void SetForeignCalls(const ForeignCalls& calls);

}  // namespace opstep
