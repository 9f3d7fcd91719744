// How the executor calls layers that are written in the calling language.
#pragma once

#include <string>
#include <vector>

#include "base/tensor.h"

namespace opstep {

// One layer written in the calling language: its name there, and its options as JSON.
struct ForeignLayer {
  std::string name;
  std::string options;
};

// The calls to such layers. The bindings set it.
struct ForeignLayers {
  // The types of the results for inputs of these types; sizes may be -1.
  std::vector<VarType> (*types)(const ForeignLayer& layer, const std::vector<VarType>& inputs);
  // An error unless the layer can compute gradients.
  void (*check_gradient)(const ForeignLayer& layer);
  void (*forward)(const ForeignLayer& layer, const std::vector<const Tensor*>& inputs,
                  const std::vector<Tensor*>& outputs);
  // Missing gradients of outputs, and unwanted gradients of inputs, are null.
  void (*backward)(const ForeignLayer& layer, const std::vector<const Tensor*>& inputs,
                   const std::vector<const Tensor*>& outputs,
                   const std::vector<const Tensor*>& output_gradients,
                   const std::vector<Tensor*>& input_gradients);
};

void SetForeignLayers(const ForeignLayers& layers);

}  // namespace opstep
