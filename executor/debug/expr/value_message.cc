// Values as the wire's messages, within limits.
#include <algorithm>
#include <cstring>

#include "base/summary.h"
#include "debug/expr/node.h"
#include "ops/lib/threads.h"

namespace opstep {
namespace expr {
namespace {

constexpr uint64_t kMaxChildren = 1000;
// The size of a message without its elements.
constexpr size_t kOverhead = 160;

bool Take(size_t& left, size_t bytes) {
  if (bytes > left) return false;
  left -= bytes;
  return true;
}

void Scalar(const Value& v, proto::Value* out) {
  if (v.kind == Value::Kind::kBool) {
    out->set_b(v.b);
  } else if (v.kind == Value::Kind::kInt) {
    out->set_i(v.i);
  } else {
    out->set_f(v.f);
  }
}

// Type, shape, summary and the first elements, up to the wanted number and the room.
void Whole(const Tensor& t, ReplyLimits& limits, size_t most, proto::Tensor* out) {
  out->set_dtype(static_cast<proto::DataType>(t.dtype));
  for (int64_t size : t.dims) out->add_dims(size);
  const Summary s = Summarize(t, [&](int64_t n, const std::function<void(int64_t)>& piece) {
    ParallelFor(n, [&](int64_t i) {
      OPSTEP_CHECK(limits.cancelled == nullptr || !*limits.cancelled, "the command was given up");
      piece(i);
    });
  });
  proto::TensorSummary* summary = out->mutable_summary();
  summary->set_count(s.count);
  summary->set_min(s.min);
  summary->set_max(s.max);
  summary->set_mean(s.mean);
  summary->set_std(s.std);
  summary->set_nan(s.nan);
  summary->set_inf(s.inf);
  summary->set_zeros(s.zeros);
  const size_t size = SizeOf(t.dtype);
  const uint64_t wanted = std::min<uint64_t>(static_cast<uint64_t>(t.numel), limits.max_elements);
  const size_t bytes = std::min<uint64_t>(wanted, std::min(most, limits.bytes) / size) * size;
  if (t && bytes > 0) out->set_data(t.data, bytes);
  limits.bytes -= bytes;
}

void Children(const Tensor& t, ReplyLimits& limits, proto::Tensor* out) {
  if (t.dims.rank() == 0 || !t) return;
  const uint64_t size = static_cast<uint64_t>(t.dims[0]);
  const uint64_t start = std::min(limits.start, size);
  const uint64_t count = std::min({limits.count, kMaxChildren, size - start});
  Tensor child;
  child.dtype = t.dtype;
  for (int i = 1; i < t.dims.rank(); ++i) child.dims.push_back(t.dims[i]);
  child.numel = child.dims.numel();
  for (uint64_t i = start; i < start + count; ++i) {
    if (!Take(limits.bytes, kOverhead)) return;
    child.data = static_cast<char*>(t.data) + i * child.bytes();
    if (child.dims.rank() == 0) {
      Scalar(LoadScalar(t.dtype, child.as<char>()), out->add_children());
    } else {
      Whole(child, limits, limits.bytes / (start + count - i),
            out->add_children()->mutable_tensor());
    }
  }
}

}  // namespace

void ToMessage(const Value& value, ReplyLimits& limits, Budget& budget, proto::Value* out) {
  Take(limits.bytes, std::min(limits.bytes, kOverhead));
  switch (value.kind) {
    case Value::Kind::kString: {
      const size_t n = std::min(value.string().size(), limits.bytes);
      limits.bytes -= n;
      out->set_s(value.string().substr(0, n));
      return;
    }
    case Value::Kind::kList: {
      proto::ValueList* list = out->mutable_list();
      ReplyLimits inner = limits;
      inner.count = 0;
      uint64_t sent = 0;
      for (const Value& v : value.list()) {
        if (inner.bytes < kOverhead || sent++ == kMaxChildren) break;
        ToMessage(v, inner, budget, list->add_values());
      }
      limits.bytes = inner.bytes;
      return;
    }
    case Value::Kind::kArray: {
      const Tensor t = ToTensor(value, value.dtype, budget);
      budget.Spend(t.numel);
      // Half of the room is for the children, if they are wanted.
      Whole(t, limits, limits.count > 0 ? limits.bytes / 2 : limits.bytes, out->mutable_tensor());
      Children(t, limits, out->mutable_tensor());
      return;
    }
    default:
      Scalar(value, out);
  }
}

}  // namespace expr

void TensorToValue(const Tensor& tensor, uint64_t max_elements, uint64_t start, uint64_t count,
                   proto::Value* out, const std::atomic<bool>* cancelled) {
  OPSTEP_CHECK(tensor.dtype != DType::kNone, "the tensor has no type");
  expr::ReplyLimits limits{max_elements, start, count, expr::kMaxReplyBytes, cancelled};
  expr::Whole(tensor, limits, count > 0 ? limits.bytes / 2 : limits.bytes, out->mutable_tensor());
  expr::Children(tensor, limits, out->mutable_tensor());
}

}  // namespace opstep
