// DLPack capsules: tensors that another library of this process can use without a copy.
#pragma once

#include "opstep/bindings/bindings.h"

namespace opstep::python {

// A capsule that the other library takes over. It keeps the tensor's owner alive; a tensor without
// an owner is borrowed.
py::object ToDlpack(const Tensor& tensor);

}  // namespace opstep::python
