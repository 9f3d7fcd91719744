// The stack frames of a stopped run, and the scope that each of them means.
#pragma once

#include <string>
#include <vector>

#include "debug.pb.h"
#include "debug/expr/python_names.h"
#include "debug/session/stepper.h"
#include "runtime/hook.h"

namespace opstep {

// The stack of a run that stands still: the op, the calls that made it, its blocks, the run, the
// Python frames. `at` says how far those calls are entered. Called on the thread that runs, without
// any lock: it may wait for Python's.
void FillFrames(const FrameView& frame, const Position& at, proto::Stopped* stopped);

// What one of those frames stands for, to look at values there.
struct FrameScope {
  proto::StackFrame::Kind kind = proto::StackFrame::KIND_UNSPECIFIED;
  const Activation* where = nullptr;
  const proto::OpDesc* op = nullptr;  // null for the run and for Python's frames
  int op_block = 0;                   // that the op stands in
  int block = 0;                      // whose variables are seen
  size_t frames = 0;  // which of the frames that made the op, counted from the outermost, from 1
  size_t python = 0;  // which of Python's frames, counted from the innermost
};
// `op`, unless it is 0, is another op of the plan, looked at from that frame. Throws Error when
// there is no such op.
FrameScope FindFrame(const FrameView& frame, const Position& at, uint32_t index, uint32_t op = 0);
// What names mean there.
PythonNames NamesIn(const FrameView& frame, const FrameScope& at, PythonNames::Of of);

}  // namespace opstep
