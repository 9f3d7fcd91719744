// How the executor calls layers that are written in the language above it.
#pragma once

#include <string>
#include <vector>

#include "base/tensor.h"

namespace opstep {

// One layer that is code of the language above: its name there, and its options as JSON.
struct ForeignLayer {
  std::string name;
  std::string options;
};

// What can be asked of them. The bindings set it.
struct ForeignLayers {
  // The types of the results for inputs of these types; sizes may be -1.
  std::vector<VarType> (*types)(const ForeignLayer& layer, const std::vector<VarType>& inputs);
  // An error unless the layer can compute gradients.
  void (*check_gradient)(const ForeignLayer& layer);
  void (*forward)(const ForeignLayer& layer, const std::vector<const Tensor*>& inputs,
                  const std::vector<Tensor*>& outputs);
  // Gradients of outputs that have none, and those of inputs that nobody wants, are null.
  void (*backward)(const ForeignLayer& layer, const std::vector<const Tensor*>& inputs,
                   const std::vector<const Tensor*>& outputs,
                   const std::vector<const Tensor*>& output_gradients,
                   const std::vector<Tensor*>& input_gradients);
};

void SetForeignLayers(const ForeignLayers& layers);

}  // namespace opstep
