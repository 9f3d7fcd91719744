// Layers that are Python code: ops whose kernels call back.
#include <cstring>

#include "ops/nn/foreign_layer.h"
#include "opstep/bindings/callback.h"

namespace opstep::python {
namespace {

// The package's object with the methods `types`, `check_gradient`, `forward` and `backward`; it
// lives as long as Python.
PyObject* calls = nullptr;

template <typename F>
void Call(const char* method, F&& use) {
  OPSTEP_CHECK(calls != nullptr, "the package opstep was not imported");
  CallPython("the layer's code", [&] { use(py::handle(calls).attr(method)); });
}

py::tuple FromType(const VarType& type) {
  return py::make_tuple(std::string(NameOf(type.dtype)), py::tuple(FromDims(type.dims)));
}

// Copies: the layer may keep or change them, and a plan reuses its memory.
py::list Arrays(const std::vector<const Tensor*>& tensors) {
  py::list arrays;
  for (const Tensor* tensor : tensors) {
    if (tensor == nullptr) {
      arrays.append(py::none());
      continue;
    }
    Tensor borrowed = *tensor;
    borrowed.owner = nullptr;
    arrays.append(ToArray(borrowed));
  }
  return arrays;
}

py::list Types(const std::vector<Tensor*>& tensors) {
  py::list types;
  for (const Tensor* tensor : tensors) {
    if (tensor == nullptr) {
      types.append(py::none());
    } else {
      types.append(FromType(tensor->type()));
    }
  }
  return types;
}

// The package has checked the layer's results; None means zeros.
void Take(const py::object& given, const std::vector<Tensor*>& tensors) {
  const auto results = py::cast<py::list>(given);
  OPSTEP_CHECK(results.size() == tensors.size(), "the layer gave ", results.size(), " results");
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i] == nullptr || tensors[i]->bytes() == 0) continue;
    const py::object result = results[i];
    if (result.is_none()) {
      std::memset(tensors[i]->data, 0, tensors[i]->bytes());
      continue;
    }
    std::vector<py::object> keep;
    const Tensor array = BorrowArray(py::cast<py::array>(result), keep, "what the layer gave");
    OPSTEP_CHECK(array.type() == tensors[i]->type(), "the layer gave ", array.type().ToString(),
                 " for ", tensors[i]->type().ToString());
    std::memcpy(tensors[i]->data, array.data, array.bytes());
  }
}

std::vector<VarType> ResultTypes(const ForeignLayer& layer, const std::vector<VarType>& inputs) {
  std::vector<VarType> types;
  Call("types", [&](const py::object& method) {
    py::list given;
    for (const VarType& type : inputs) given.append(FromType(type));
    const py::object said = Invoke(method, py::make_tuple(layer.name, layer.options, given));
    for (const py::handle type : said) {
      const auto parts = py::cast<py::tuple>(type);
      types.push_back({ToDType(parts[0]), Dims(ToDims(parts[1]))});
    }
  });
  return types;
}

void CheckGradient(const ForeignLayer& layer) {
  Call("check_gradient",
       [&](const py::object& method) { Invoke(method, py::make_tuple(layer.name)); });
}

void Forward(const ForeignLayer& layer, const std::vector<const Tensor*>& inputs,
             const std::vector<Tensor*>& outputs) {
  Call("forward", [&](const py::object& method) {
    const auto args = py::make_tuple(layer.name, layer.options, Arrays(inputs), Types(outputs));
    Take(Invoke(method, args), outputs);
  });
}

void Backward(const ForeignLayer& layer, const std::vector<const Tensor*>& inputs,
              const std::vector<const Tensor*>& outputs,
              const std::vector<const Tensor*>& output_gradients,
              const std::vector<Tensor*>& input_gradients) {
  Call("backward", [&](const py::object& method) {
    const auto args = py::make_tuple(layer.name, layer.options, Arrays(inputs), Arrays(outputs),
                                     Arrays(output_gradients), Types(input_gradients));
    Take(Invoke(method, args), input_gradients);
  });
}

}  // namespace

void BindLayers(py::module_& m) {
  SetForeignLayers({.types = &ResultTypes,
                    .check_gradient = &CheckGradient,
                    .forward = &Forward,
                    .backward = &Backward});
  m.def("set_layer_calls", [](py::object object) { calls = object.release().ptr(); });
}

}  // namespace opstep::python
