// The key under which the plan of a call is cached.
#pragma once

#include <memory_resource>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/tensor.h"
#include "opstep/bindings/bindings.h"

namespace opstep::python {

// Bytes that distinguish a call of an op from others; short ones need no heap memory.
class TraceKey {
 public:
  explicit TraceKey(std::pmr::memory_resource* memory) : bytes_(memory) { bytes_.reserve(512); }

  std::string_view view() const { return bytes_; }
  template <typename T>
  void Add(const T& plain) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&plain), sizeof plain);
  }
  void AddText(std::string_view text) {
    Add(text.size());
    bytes_ += text;
  }
  void AddText(PyObject* text);
  void AddType(const Tensor& tensor);
  // An attribute's value; false when it is too large to be compared.
  bool AddAttr(PyObject* value);

 private:
  std::pmr::string bytes_;
};

}  // namespace opstep::python
