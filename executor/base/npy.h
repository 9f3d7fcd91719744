// NumPy's .npy, format 1 to 3. Little-endian numbers of our dtypes only; bfloat16 has no place in
// it.
#pragma once

#include <functional>
#include <string>

#include "base/file.h"
#include "base/tensor.h"

namespace opstep {

// Gives the next bytes, as many as are asked for.
using NextBytes = std::function<void(void* to, size_t bytes)>;

struct NpyHeader {
  VarType type;
  bool column_major = false;
  uint64_t bytes = 0;  // its own
};

// `size` is that of the whole, checked against what the header claims. `what` begins the errors.
NpyHeader ReadNpyHeader(const NextBytes& next, uint64_t size, const std::string& what);
// What follows the header, into memory for its type, row-major whatever the order in the file.
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
