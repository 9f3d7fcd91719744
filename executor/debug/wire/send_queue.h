// SendQueue: messages that wait to be written.
#pragma once

#include <deque>
#include <utility>

#include "debug.pb.h"

namespace opstep {

// Messages that are ready at the same time go out as one batch: a step's answer and its stop cost
// one message. Not locked.
class SendQueue {
 public:
  bool empty() const { return queue_.empty(); }
  size_t bytes() const { return bytes_; }
  void Add(proto::FromExecutor message);
  // The first message, together with those behind it that fit.
  proto::FromExecutor Take();
  void Clear();

 private:
  proto::FromExecutor TakeOne(size_t* bytes);

  std::deque<std::pair<size_t, proto::FromExecutor>> queue_;  // with their sizes
  size_t bytes_ = 0;
};

}  // namespace opstep
