// DLPack capsules of our tensors.
#include "opstep/bindings/dlpack.h"

#include <memory>

namespace opstep::python {
namespace {

// The structs of DLPack's stable interface, version 0:
// https://dmlc.github.io/dlpack/latest/c_api.html
struct DLDevice {
  int32_t type, id;
};
struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};

constexpr int32_t kCpu = 1;
constexpr const char* kName = "dltensor";

struct Managed {
  DLManagedTensor dl{};
  Dims dims;
  std::shared_ptr<void> owner;
};

uint8_t CodeOf(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      return 0;
    case DType::kUInt8:
      return 1;
    case DType::kFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return 2;
    case DType::kBFloat16:
      return 4;
    case DType::kBool:
      return 6;
    case DType::kNone:
      break;
  }
  Fail("the variable has no dtype");
}

void Delete(DLManagedTensor* dl) { delete static_cast<Managed*>(dl->context); }

// A capsule that nobody took has its own name still.
void DeleteCapsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, kName)) return;
  Delete(static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kName)));
}

}  // namespace

py::object ToDlpack(const Tensor& tensor) {
  auto managed = std::make_unique<Managed>();
  managed->dims = tensor.dims;
  managed->owner = tensor.owner;
  DLTensor& dl = managed->dl.tensor;
  dl.data = tensor.data;
  dl.device = {kCpu, 0};
  dl.ndim = tensor.dims.rank();
  dl.dtype = {CodeOf(tensor.dtype), static_cast<uint8_t>(8 * SizeOf(tensor.dtype)), 1};
  dl.shape = dl.ndim > 0 ? &managed->dims[0] : nullptr;
  managed->dl.context = managed.get();
  managed->dl.deleter = &Delete;
  PyObject* const capsule = PyCapsule_New(&managed->dl, kName, &DeleteCapsule);
  if (!capsule) throw py::error_already_set();
  (void)managed.release();
  return py::reinterpret_steal<py::object>(capsule);
}

}  // namespace opstep::python
