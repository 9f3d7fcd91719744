#pragma once

#include <string>
#include <vector>

#include "debug.pb.h"
#include "runtime/hook.h"

namespace opstep {

// The stack of a run that stands still: the op, its blocks, the run, the Python frames. Called on
// the thread that runs, without any lock: it may wait for Python's.
void FillFrames(const FrameView& frame, proto::Stopped* stopped);

// What one of those frames stands for, to look at values there.
struct FrameScope {
  proto::StackFrame::Kind kind = proto::StackFrame::KIND_UNSPECIFIED;
  const Activation* where = nullptr;  // null for a Python frame
  const proto::OpDesc* op = nullptr;  // null for the run
  int op_block = 0;                   // that the op stands in
  int block = 0;                      // whose variables are seen
};
// `op`, unless it is 0, is another op of the plan, looked at from that frame. Throws Error when
// there is no such frame or op, or the frame is a Python one.
FrameScope FindFrame(const FrameView& frame, uint32_t index, uint32_t op = 0);

}  // namespace opstep
