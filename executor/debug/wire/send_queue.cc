// SendQueue: puts messages that are ready together into one batch.
#include "debug/wire/send_queue.h"

namespace opstep {
namespace {

// Larger messages gain nothing from a batch.
constexpr size_t kBatchBytes = 256 << 10;

}  // namespace

void SendQueue::Add(proto::FromExecutor message) {
  const size_t bytes = message.ByteSizeLong();
  bytes_ += bytes;
  queue_.emplace_back(bytes, std::move(message));
}

proto::FromExecutor SendQueue::TakeOne(size_t* bytes) {
  auto [size, message] = std::move(queue_.front());
  queue_.pop_front();
  bytes_ -= size;
  *bytes += size;
  return std::move(message);
}

proto::FromExecutor SendQueue::Take() {
  size_t bytes = 0;
  const auto fits = [&] { return !queue_.empty() && bytes + queue_.front().first <= kBatchBytes; };
  proto::FromExecutor first = TakeOne(&bytes);
  if (!fits()) return first;
  proto::FromExecutor all;
  *all.mutable_batch()->add_messages() = std::move(first);
  while (fits()) *all.mutable_batch()->add_messages() = TakeOne(&bytes);
  return all;
}

void SendQueue::Clear() {
  queue_.clear();
  bytes_ = 0;
}

}  // namespace opstep
