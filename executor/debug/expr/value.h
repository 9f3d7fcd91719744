// Value of the expression language (scalar, array, string, list), and Budget of an evaluation.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"

namespace opstep::expr {

// The limits of an evaluation: a hostile expression ends with an Error and does not block the run.
inline constexpr int kMaxNodes = 1000;
inline constexpr int kMaxDepth = 64;
inline constexpr size_t kMaxBytes = size_t{1} << 30;  // of intermediate results
inline constexpr std::chrono::milliseconds kMaxTime{2000};

class Budget {
 public:
  // `cancelled` (may be null) is checked as often as the clock.
  explicit Budget(const std::atomic<bool>* cancelled = nullptr) : cancelled_(cancelled) {}
  // Counts processed elements and checks the clock now and then.
  void Spend(int64_t elements) {
    if ((until_look_ -= elements) < 0) [[unlikely]]
      Look();
  }
  std::shared_ptr<void> Allocate(int64_t elements, DType dtype);

 private:
  void Look();
  const std::atomic<bool>* cancelled_;
  int64_t until_look_ = 1 << 15;
  size_t bytes_ = 0;
  bool started_ = false;
  std::chrono::steady_clock::time_point start_;
};

// A value of the expression language. Scalars, and arrays of one element that were computed, lie
// inside it, so conditions on them do not allocate.
//  - A scalar with dtype kNone is Python's (weak: it takes the type of the other operand); with
//    another dtype it is NumPy's. Its number is in b, i or f after its kind.
//  - An array is a strided view; strides count bytes.
struct Value {
  enum class Kind : uint8_t { kBool, kInt, kFloat, kArray, kString, kList };

  Kind kind = Kind::kBool;
  DType dtype = DType::kNone;
  int8_t rank = 0;
  union {
    bool b;
    int64_t i;
    double f;
    char small[8];
  };
  const char* data = nullptr;         // null: `small`
  std::shared_ptr<const void> owner;  // of the array's memory, or the string, or the list
  int64_t dims[Dims::kMaxRank] = {};
  int64_t strides[Dims::kMaxRank] = {};

  Value() : i(0) {}
  static Value Bool(bool value, DType dtype = DType::kNone);
  static Value Int(int64_t value, DType dtype = DType::kNone);
  static Value Float(double value, DType dtype = DType::kNone);
  static Value String(std::string text);
  static Value List(std::vector<Value> values);
  // A view; `Of` turns a view of rank 0 into a scalar.
  static Value Of(const Tensor& tensor);
  static Value View(const Tensor& tensor);
  // Fresh dense memory of the given shape, to be written through `*memory`. One element lies in
  // `small` of the value itself, so the value must not move before it is written.
  static void Fresh(DType dtype, const Dims& dims, Budget& budget, Value* out, char** memory);
  // The scalar in an array of rank 0; anything else as it is.
  static Value Finish(Value value);

  bool is_scalar() const { return kind <= Kind::kFloat; }
  bool is_array() const { return kind == Kind::kArray; }
  bool is_number() const { return kind <= Kind::kArray; }
  bool is_weak() const { return is_scalar() && dtype == DType::kNone; }
  const std::string& string() const { return *static_cast<const std::string*>(owner.get()); }
  const std::vector<Value>& list() const {
    return *static_cast<const std::vector<Value>*>(owner.get());
  }
  const char* memory() const { return data ? data : small; }
  // Also for scalars: of rank 0, one element.
  Dims shape() const { return Dims(std::span<const int64_t>(dims, static_cast<size_t>(rank))); }
  int64_t numel() const;
  // The dtype as an array: weak scalars are bool, int64 and float64.
  DType full_dtype() const;
  bool dense() const;
  // "float32[3, 4]", "an int", "a string"
  std::string Describe() const;
};

// The element of an array of one element (or a scalar itself) as a NumPy scalar.
Value Element(const Value& value);
Value LoadScalar(DType dtype, const char* memory);
// Python's bool(value).
bool Truth(const Value& value);
// Lists of numbers become arrays; strings and lists of tensors are an Error that names `user`.
Value ToNumeric(const Value& value, std::string_view user, Budget& budget);
// The whole number that an index, an axis or a slice bound must be.
int64_t ToIndex(const Value& value, std::string_view what);
// Row-major memory: the viewed tensor's own memory when it fits, otherwise a copy.
Tensor ToTensor(const Value& value, DType dtype, Budget& budget);

// NumPy's result type; weak scalars give way.
DType Promote(const Value& a, const Value& b);
DType Promote(DType a, DType b);
Dims Broadcast(const Dims& a, const Dims& b, std::string_view user);

// Runs f(C{}) with the type that a dtype is computed in: float, double or int64_t.
template <typename F>
decltype(auto) DispatchCompute(DType dtype, F&& f) {
  if (dtype == DType::kFloat64) return f(double{});
  if (IsFloat(dtype)) return f(float{});
  return f(int64_t{});
}

// Elements in row-major order, converted to the type of the computation, a chunk at a time. Dense
// memory of that type is returned as it is.
template <typename C>
class Reader {
 public:
  static constexpr int64_t kChunk = 1024;
  // The value as if it had the shape `dims`, which it must broadcast to.
  Reader(const Value& value, const Dims& dims);
  explicit Reader(const Value& value) : Reader(value, value.shape()) {}
  // At most kChunk; valid until the next call.
  const C* Next(int64_t n);

 private:
  DType dtype_ = DType::kNone;
  bool constant_ = false, direct_ = false;
  int rank_ = 0;
  const char* at_ = nullptr;
  int64_t dims_[Dims::kMaxRank], strides_[Dims::kMaxRank], index_[Dims::kMaxRank];
  alignas(64) C buffer_[kChunk];
};
extern template class Reader<float>;
extern template class Reader<double>;
extern template class Reader<int64_t>;

// Writes n elements densely, converted to dtype (integers wrap).
template <typename C>
void Store(DType dtype, const C* from, int64_t n, char* to);

}  // namespace opstep::expr
