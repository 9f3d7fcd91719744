#pragma once

#include <string>

#include "base/file.h"
#include "base/tensor.h"

namespace opstep {

// A .npy file of NumPy, format 1 to 3. Little-endian numbers of our dtypes only; bfloat16 has no
// place in it.
class NpyFile {
 public:
  explicit NpyFile(const std::string& path);
  const VarType& type() const { return type_; }
  // Into memory for type(), row-major whatever the order in the file.
  void Read(void* to) const;

 private:
  void ParseHeader(const std::string& header);

  const InputFile file_;
  VarType type_;
  bool column_major_ = false;
  uint64_t begin_ = 0;
};

void WriteNpy(const std::string& path, const Tensor& tensor, bool overwrite = true);

}  // namespace opstep
