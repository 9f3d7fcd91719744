// NumPy's .npy, format 1 to 3. Little-endian numbers of our dtypes only; it cannot hold bfloat16.
#pragma once

#include <functional>
#include <string>

#include "base/file.h"
#include "base/tensor.h"

namespace opstep {

// Gives the next bytes, in the requested number.
using NextBytes = std::function<void(void* to, size_t bytes)>;

struct NpyHeader {
  VarType type;
  bool column_major = false;
  uint64_t bytes = 0;  // its own
};

// `size` is that of the whole file, checked against the header. `what` begins the errors.
NpyHeader ReadNpyHeader(const NextBytes& next, uint64_t size, const std::string& what);
// Reads the data after the header into memory for its type; row-major for any order in the file.
void ReadNpyData(const NpyHeader& header, const NextBytes& next, void* to, const std::string& what);

class NpyFile {
 public:
  explicit NpyFile(const std::string& path);
  const VarType& type() const { return header_.type; }
  // Into memory for type().
  void Read(void* to) const;

 private:
  const InputFile file_;
  NpyHeader header_;
};

void WriteNpy(const std::string& path, const Tensor& tensor, bool overwrite = true);

}  // namespace opstep
