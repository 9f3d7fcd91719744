// Tensors in files: .npy as arrays, safetensors as values of a scope.
#include <pybind11/stl.h>

#include <map>
#include <utility>

#include "base/npy.h"
#include "base/safetensors.h"
#include "opstep/bindings/bindings.h"
#include "runtime/scope.h"

namespace opstep::python {
namespace {

py::array ReadArray(const std::string& path) {
  Tensor tensor;
  {
    const WithoutGil released;
    const NpyFile file(path);
    tensor = Tensor::Allocate(file.type());
    file.Read(tensor.data);
  }
  return ToArray(tensor);
}

void WriteArray(const std::string& path, const py::array& array) {
  std::vector<py::object> keep;
  const Tensor tensor = BorrowArray(array, keep, "the array for " + Quoted(path));
  const WithoutGil released;
  WriteNpy(path, tensor);
}

// Reads no more than the caller's limit.
py::bytes ReadBytes(const std::string& path, uint64_t limit) {
  std::string bytes;
  {
    const WithoutGil released;
    const InputFile file(path);
    OPSTEP_CHECK(file.size() <= limit, "cannot read ", Quoted(path), ": it has ", file.size(),
                 " bytes, more than the ", limit, " that are possible");
    bytes.resize(static_cast<size_t>(file.size()));
    file.Read(0, bytes.data(), bytes.size());
  }
  return py::bytes(bytes);
}

void WriteBytes(const std::string& path, const py::bytes& data) {
  const std::string_view bytes = data;
  const WithoutGil released;
  OutputFile file(path, true);
  file.Write(bytes);
  file.Commit();
}

py::dict ReadTypes(const std::string& path) {
  py::dict out;
  const SafetensorsFile file(path);
  for (const auto& [name, entry] : file.entries()) {
    out[py::str(name)] = py::make_tuple(NameOf(entry.type.dtype), FromDims(entry.type.dims));
  }
  return out;
}

using Wanted = std::map<std::string, std::pair<std::string, std::vector<int64_t>>>;
// The name in the file → the key in the scope, if it differs.
using Keys = std::map<std::string, std::string>;

// Loads all or none: the scope changes only when everything was read.
void ReadTensors(const std::string& path, Scope& scope, const Wanted& wanted, const Keys& keys) {
  const WithoutGil released;
  const SafetensorsFile file(path);
  std::vector<NamedTensor> read;
  for (const auto& [name, declared] : wanted) {
    const auto& [dtype, sizes] = declared;
    const SafetensorsFile::Entry& entry = file.Get(name);
    const VarType type{DTypeFromName(dtype).value(), Dims(sizes)};
    OPSTEP_CHECK(entry.type == type, Quoted(path), " has ", Quoted(name), " as ",
                 entry.type.ToString(), " but the program has it as ", type.ToString());
    Tensor tensor = Tensor::Allocate(type);
    file.Read(entry, tensor.data);
    const auto key = keys.find(name);
    read.push_back({key == keys.end() ? name : key->second, std::move(tensor)});
  }
  for (NamedTensor& item : read) scope.Set(item.name, std::move(item.tensor));
}

void WriteTensors(const std::string& path, const Scope& scope,
                  const std::vector<std::pair<std::string, std::string>>& keys) {
  const WithoutGil released;
  std::vector<NamedTensor> tensors;
  for (const auto& [name, key] : keys) {
    tensors.push_back({name, scope.Find(key)});
    OPSTEP_CHECK(tensors.back().tensor, "cannot write ", Quoted(path), ": ", Quoted(name),
                 " has no value yet; run the startup program first");
  }
  WriteSafetensors(path, std::move(tensors));
}

}  // namespace

void BindFiles(py::module_& m) {
  m.def("read_array", &ReadArray);
  m.def("write_array", &WriteArray);
  m.def("read_file", &ReadBytes);
  m.def("write_file", &WriteBytes);
  m.def("read_types", &ReadTypes);
  m.def("read_tensors", &ReadTensors, py::arg("path"), py::arg("scope"), py::arg("wanted"),
        py::arg("keys") = Keys());
  m.def("write_tensors", &WriteTensors);
}

}  // namespace opstep::python
