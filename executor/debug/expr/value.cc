// Value: making, describing and converting values; dtypes and shapes of results.
#include "debug/expr/value.h"

#include <cmath>
#include <cstring>

namespace opstep::expr {

std::shared_ptr<void> Budget::Allocate(int64_t elements, DType dtype) {
  const size_t bytes = static_cast<size_t>(elements) * SizeOf(dtype);
  if (bytes > kMaxBytes || bytes_ + bytes > kMaxBytes) {
    Fail("the expression needs more than ", kMaxBytes >> 20,
         " MiB for its intermediate results: take a slice first");
  }
  bytes_ += bytes;
  return AllocateAligned(bytes);
}

void Budget::Look() {
  until_look_ = 1 << 18;
  if (cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed))
    Fail("the command was cancelled");
  const auto now = std::chrono::steady_clock::now();
  if (!started_) {
    started_ = true;
    start_ = now;
  } else if (now - start_ > kMaxTime) {
    Fail("the expression took longer than ", kMaxTime.count() / 1000, " s: take a slice first");
  }
}

Value Value::Bool(bool value, DType dtype) {
  Value v;
  v.kind = Kind::kBool;
  v.dtype = dtype;
  v.b = value;
  return v;
}

Value Value::Int(int64_t value, DType dtype) {
  Value v;
  v.kind = Kind::kInt;
  v.dtype = dtype;
  v.i = value;
  return v;
}

Value Value::Float(double value, DType dtype) {
  Value v;
  v.kind = Kind::kFloat;
  v.dtype = dtype;
  v.f = value;
  return v;
}

Value Value::String(std::string text) {
  Value v;
  v.kind = Kind::kString;
  v.owner = std::make_shared<const std::string>(std::move(text));
  return v;
}

Value Value::List(std::vector<Value> values) {
  Value v;
  v.kind = Kind::kList;
  v.owner = std::make_shared<const std::vector<Value>>(std::move(values));
  return v;
}

Value Value::Of(const Tensor& tensor) {
  OPSTEP_CHECK(tensor.data != nullptr || tensor.numel == 0, "the tensor has no memory");
  OPSTEP_CHECK(tensor.dtype != DType::kNone, "the tensor has no type");
  return tensor.dims.rank() == 0 ? LoadScalar(tensor.dtype, tensor.as<char>()) : View(tensor);
}

Value Value::View(const Tensor& tensor) {
  Value v;
  v.kind = Kind::kArray;
  v.dtype = tensor.dtype;
  v.rank = static_cast<int8_t>(tensor.dims.rank());
  v.data = tensor.as<char>();
  v.owner = tensor.owner;
  int64_t stride = static_cast<int64_t>(SizeOf(tensor.dtype));
  for (int i = v.rank - 1; i >= 0; --i) {
    v.dims[i] = tensor.dims[i];
    v.strides[i] = stride;
    stride *= std::max<int64_t>(tensor.dims[i], 1);
  }
  return v;
}

void Value::Fresh(DType dtype, const Dims& dims, Budget& budget, Value* out, char** memory) {
  const int64_t n = dims.numel();
  OPSTEP_CHECK(n <= static_cast<int64_t>(kMaxBytes), "a result of shape ", dims.ToString(),
               " is too large for an expression: take a slice first");
  out->kind = Kind::kArray;
  out->dtype = dtype;
  out->rank = static_cast<int8_t>(dims.rank());
  int64_t stride = static_cast<int64_t>(SizeOf(dtype));
  for (int i = out->rank - 1; i >= 0; --i) {
    out->dims[i] = dims[i];
    out->strides[i] = stride;
    stride *= std::max<int64_t>(dims[i], 1);
  }
  if (n == 1) {
    out->data = nullptr;
    out->owner.reset();
    *memory = out->small;
    return;
  }
  auto owner = budget.Allocate(n, dtype);
  *memory = static_cast<char*>(owner.get());
  out->data = *memory;
  out->owner = std::move(owner);
}

Value Value::Finish(Value value) {
  return value.is_array() && value.rank == 0 ? LoadScalar(value.dtype, value.memory())
                                             : std::move(value);
}

int64_t Value::numel() const {
  int64_t n = 1;
  for (int i = 0; i < rank; ++i) n *= dims[i];
  return n;
}

DType Value::full_dtype() const {
  if (dtype != DType::kNone) return dtype;
  if (kind == Kind::kBool) return DType::kBool;
  return kind == Kind::kInt ? DType::kInt64 : DType::kFloat64;
}

bool Value::dense() const {
  int64_t stride = static_cast<int64_t>(SizeOf(dtype));
  for (int i = rank - 1; i >= 0; --i) {
    if (dims[i] != 1 && strides[i] != stride) return false;
    stride *= dims[i];
  }
  return true;
}

std::string Value::Describe() const {
  switch (kind) {
    case Kind::kString:
      return "a string";
    case Kind::kList:
      return Cat("a list of ", list().size());
    case Kind::kArray:
      return std::string(NameOf(dtype)) + shape().ToString();
    default:
      break;
  }
  if (dtype != DType::kNone) return Cat("a ", NameOf(dtype));
  return kind == Kind::kBool ? "a bool" : kind == Kind::kInt ? "an int" : "a float";
}

Value Element(const Value& value) {
  return value.is_array() ? LoadScalar(value.dtype, value.memory()) : value;
}

bool Truth(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kBool:
      return value.b;
    case Value::Kind::kInt:
      return value.i != 0;
    case Value::Kind::kFloat:
      return value.f != 0;
    case Value::Kind::kString:
      return !value.string().empty();
    case Value::Kind::kList:
      return !value.list().empty();
    case Value::Kind::kArray:
      break;
  }
  const int64_t n = value.numel();
  OPSTEP_CHECK(n != 0, "the truth of an empty array is not defined: use its .size");
  OPSTEP_CHECK(n == 1, "the truth of ", value.Describe(), " is not one value: use any() or all()");
  return Truth(Element(value));
}

int64_t ToIndex(const Value& value, std::string_view what) {
  if (value.is_number() && value.numel() == 1) {
    const Value one = Element(value);
    if (one.kind == Value::Kind::kInt) return one.i;
    if (one.kind == Value::Kind::kBool && one.is_weak()) return one.b;
  }
  Fail(what, " must be a whole number, not ", value.Describe());
}

namespace {

// Appends the numbers of a nested list; `dims` comes from the first elements; the others are
// checked against it.
void Flatten(const Value& value, int depth, std::string_view user, std::vector<int64_t>& dims,
             bool& leaf_seen, std::vector<Value>& out) {
  if (value.kind != Value::Kind::kList) {
    OPSTEP_CHECK(value.kind != Value::Kind::kString, user, " takes numbers, not a list of strings");
    OPSTEP_CHECK(value.is_scalar(), user, " cannot take a list of tensors: choose one with [i]");
    OPSTEP_CHECK(depth == static_cast<int>(dims.size()), user,
                 " needs a list whose rows are equally long");
    leaf_seen = true;
    out.push_back(value);
    return;
  }
  const int64_t n = static_cast<int64_t>(value.list().size());
  if (depth == static_cast<int>(dims.size()) && !leaf_seen) {
    OPSTEP_CHECK(depth < Dims::kMaxRank, user, " takes lists of at most ", Dims::kMaxRank,
                 " levels");
    dims.push_back(n);
  }
  OPSTEP_CHECK(depth < static_cast<int>(dims.size()) && dims[depth] == n, user,
               " needs a list whose rows are equally long");
  for (const Value& v : value.list()) Flatten(v, depth + 1, user, dims, leaf_seen, out);
}

}  // namespace

Value ToNumeric(const Value& value, std::string_view user, Budget& budget) {
  if (value.is_number()) return value;
  OPSTEP_CHECK(value.kind != Value::Kind::kString, user, " takes numbers, not a string");
  std::vector<int64_t> dims;
  std::vector<Value> numbers;
  bool leaf_seen = false;
  Flatten(value, 0, user, dims, leaf_seen, numbers);
  DType dtype = numbers.empty() ? DType::kFloat64 : numbers[0].full_dtype();
  for (const Value& v : numbers) dtype = Promote(dtype, v.full_dtype());
  Value out;
  char* memory;
  Value::Fresh(dtype, Dims(dims), budget, &out, &memory);
  for (size_t k = 0; k < numbers.size(); ++k) {
    DispatchCompute(dtype, [&](auto c) {
      const Value& v = numbers[k];
      const decltype(c) x = v.kind == Value::Kind::kFloat ? static_cast<decltype(c)>(v.f)
                            : v.kind == Value::Kind::kInt ? static_cast<decltype(c)>(v.i)
                                                          : static_cast<decltype(c)>(v.b);
      Store(dtype, &x, 1, memory + k * SizeOf(dtype));
    });
  }
  return out;
}

Tensor ToTensor(const Value& value, DType dtype, Budget& budget) {
  Tensor t(VarType{dtype, value.shape()});
  if (value.is_array() && value.dtype == dtype && value.data != nullptr && value.dense()) {
    t.data = const_cast<char*>(value.data);
    t.owner = std::const_pointer_cast<void>(value.owner);
    return t;
  }
  t.owner = budget.Allocate(t.numel, t.dtype);
  t.data = t.owner.get();
  DispatchCompute(t.dtype, [&](auto c) {
    using C = decltype(c);
    Reader<C> reader(value);
    for (int64_t i = 0; i < t.numel; i += Reader<C>::kChunk) {
      const int64_t n = std::min(Reader<C>::kChunk, t.numel - i);
      budget.Spend(n);
      Store(t.dtype, reader.Next(n), n, t.as<char>() + static_cast<size_t>(i) * SizeOf(t.dtype));
    }
  });
  return t;
}

DType Promote(DType a, DType b) {
  if (a == b || b == DType::kBool) return a;
  if (a == DType::kBool) return b;
  if (IsFloat(a) && IsFloat(b)) {
    if (a == DType::kFloat64 || b == DType::kFloat64) return DType::kFloat64;
    return DType::kFloat32;
  }
  const auto bytes = [](DType d) { return SizeOf(d); };
  if (!IsFloat(a) && !IsFloat(b)) {
    if (a == DType::kUInt8) std::swap(a, b);
    if (b == DType::kUInt8) return a == DType::kInt8 ? DType::kInt16 : a;
    return bytes(a) >= bytes(b) ? a : b;
  }
  if (IsFloat(b)) std::swap(a, b);
  // A float is wide enough for integers of less than its own size.
  if (bytes(b) < bytes(a)) return a;
  return bytes(b) == 2 ? DType::kFloat32 : DType::kFloat64;
}

DType Promote(const Value& a, const Value& b) {
  if (a.is_weak() == b.is_weak()) return Promote(a.full_dtype(), b.full_dtype());
  const Value& weak = a.is_weak() ? a : b;
  const DType strong = a.is_weak() ? b.dtype : a.dtype;
  if (weak.kind == Value::Kind::kBool || IsFloat(strong)) return strong;
  if (weak.kind == Value::Kind::kFloat) return DType::kFloat64;
  return strong == DType::kBool ? DType::kInt64 : strong;
}

Dims Broadcast(const Dims& a, const Dims& b, std::string_view user) {
  Dims out;
  const int rank = std::max(a.rank(), b.rank());
  for (int i = 0; i < rank; ++i) {
    const int ia = i - rank + a.rank(), ib = i - rank + b.rank();
    const int64_t da = ia < 0 ? 1 : a[ia], db = ib < 0 ? 1 : b[ib];
    OPSTEP_CHECK(da == db || da == 1 || db == 1, user, " cannot broadcast shapes ", a.ToString(),
                 " and ", b.ToString());
    out.push_back(da == 1 ? db : da);
  }
  return out;
}

}  // namespace opstep::expr
