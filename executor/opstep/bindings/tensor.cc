// NumPy arrays and tensors, without copies where the layout allows.
#include <algorithm>
#include <cstring>
#include <memory>

#include "opstep/bindings/bindings.h"

namespace opstep::python {
namespace {

DType DTypeOfArray(const py::array& array, const std::string& what) {
  const py::dtype dtype = array.dtype();
  const char order = dtype.byteorder();
  if (order == '=' || order == '|') {
    switch (dtype.kind() << 8 | static_cast<int>(dtype.itemsize())) {
      case 'f' << 8 | 2:
        return DType::kFloat16;
      case 'f' << 8 | 4:
        return DType::kFloat32;
      case 'f' << 8 | 8:
        return DType::kFloat64;
      case 'i' << 8 | 1:
        return DType::kInt8;
      case 'i' << 8 | 2:
        return DType::kInt16;
      case 'i' << 8 | 4:
        return DType::kInt32;
      case 'i' << 8 | 8:
        return DType::kInt64;
      case 'u' << 8 | 1:
        return DType::kUInt8;
      case 'b' << 8 | 1:
        return DType::kBool;
    }
  }
  const std::string name = py::str(static_cast<py::object>(dtype));
  // A dtype of the package ml_dtypes, not of NumPy.
  if (name == "bfloat16" && dtype.itemsize() == 2) return DType::kBFloat16;
  Fail(what, " is an array of dtype ", name,
       ", which opstep does not know; convert it with astype()");
}

VarType TypeOfArray(const py::array& array, const std::string& what) {
  OPSTEP_CHECK(array.ndim() <= Dims::kMaxRank, what, " has ", array.ndim(), " dimensions; at most ",
               Dims::kMaxRank, " are possible");
  Dims dims;
  for (py::ssize_t i = 0; i < array.ndim(); ++i) dims.push_back(array.shape(i));
  return {DTypeOfArray(array, what), dims};
}

bool IsPlain(const py::array& array) {
  constexpr int kNeeded = int{py::array::c_style} | int{py::detail::npy_api::NPY_ARRAY_ALIGNED_};
  return (array.flags() & kNeeded) == kNeeded;
}

py::array Contiguous(const py::array& array) {
  return py::module_::import("numpy").attr("require")(array, py::none(), "CA").cast<py::array>();
}

// From the package ml_dtypes, which may be missing.
py::dtype BFloat16Type() {
  try {
    return py::dtype::from_args(py::module_::import("ml_dtypes").attr("bfloat16"));
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_ImportError)) throw;
    Fail(
        "NumPy has no dtype bfloat16; install ml_dtypes, which adds it, or cast the variable to "
        "float32 first");
  }
}

// A bool with a byte other than 0 and 1, as in a view of other memory, is neither true nor false.
bool AllBools(const py::array& plain) {
  const auto* bytes = static_cast<const uint8_t*>(plain.data());
  return std::all_of(bytes, bytes + plain.nbytes(), [](uint8_t byte) { return byte <= 1; });
}

py::array Plain(const py::array& array, DType dtype) {
  py::array plain = IsPlain(array) ? array : Contiguous(array);
  if (dtype != DType::kBool || AllBools(plain)) return plain;
  return plain.attr("view")("uint8").attr("astype")("bool").cast<py::array>();
}

}  // namespace

py::dtype NumpyType(DType dtype) {
  OPSTEP_CHECK(dtype != DType::kNone, "the variable has no dtype");
  if (dtype == DType::kBFloat16) return BFloat16Type();
  return py::dtype(std::string(NameOf(dtype)));
}

Tensor BorrowArray(const py::array& array, std::vector<py::object>& keep, const std::string& what) {
  Tensor tensor(TypeOfArray(array, what));
  py::array plain = Plain(array, tensor.dtype);
  tensor.data = const_cast<void*>(plain.data());
  keep.push_back(std::move(plain));
  return tensor;
}

Tensor CopyArray(const py::array& array, const std::string& what) {
  Tensor tensor = Tensor::Allocate(TypeOfArray(array, what));
  const py::array plain = Plain(array, tensor.dtype);
  if (tensor.bytes() > 0) std::memcpy(tensor.data, plain.data(), tensor.bytes());
  return tensor;
}

py::array ToArray(const Tensor& tensor) {
  const std::vector<py::ssize_t> shape(tensor.dims.begin(), tensor.dims.end());
  const py::dtype dtype = NumpyType(tensor.dtype);
  if (tensor.owner == nullptr) return py::array(dtype, shape, tensor.data);
  auto owner = std::make_unique<std::shared_ptr<void>>(tensor.owner);
  py::capsule base(owner.get(), [](void* p) { delete static_cast<std::shared_ptr<void>*>(p); });
  owner.release();
  return py::array(dtype, shape, {}, tensor.data, base);
}

}  // namespace opstep::python
