// Safetensors files: reading and writing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/tensor.h"

namespace opstep {

// A safetensors file: 8 bytes for the length of the header, the header in JSON, the tensors'
// bytes one after the other. Opening it checks all of the header against the file's size; nothing
// is read or allocated for the tensors.
class SafetensorsFile {
 public:
  struct Entry {
    VarType type;
    // In the file.
    uint64_t begin = 0;
    uint64_t bytes = 0;
  };

  explicit SafetensorsFile(const std::string& path);
  const std::string& path() const { return file_.path(); }
  // By name.
  const std::map<std::string, Entry>& entries() const { return entries_; }
  // An error when it is missing.
  const Entry& Get(const std::string& name) const;
  // Into memory for entry.type.
  void Read(const Entry& entry, void* to) const;

 private:
  void ParseHeader(const std::string& header);
  void CheckPlaces(uint64_t data_bytes) const;

  const InputFile file_;
  std::map<std::string, Entry> entries_;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// The same tensors give the same bytes, whatever their order.
void WriteSafetensors(const std::string& path, std::vector<NamedTensor> tensors,
                      bool overwrite = true);

}  // namespace opstep
