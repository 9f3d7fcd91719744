// The stack frames of a stopped run, and the scope of each.
#pragma once

#include <string>
#include <vector>

#include "debug.pb.h"
#include "debug/expr/python_names.h"
#include "debug/session/stepper.h"
#include "runtime/hook.h"

namespace opstep {

// The stack of a stopped run: the op, the calls that made it, its blocks, the run, the Python
// frames. `at` says how many of those calls are entered. Called on the thread that runs, without
// any lock: it may wait for Python's.
void FillFrames(const FrameView& frame, const Position& at, proto::Stopped* stopped);

// The scope of one of those frames, to look at values there.
struct FrameScope {
  proto::StackFrame::Kind kind = proto::StackFrame::KIND_UNSPECIFIED;
  const Activation* where = nullptr;
  const proto::OpDesc* op = nullptr;  // null for the run and for Python's frames
  int op_block = 0;                   // the op's block
  int block = 0;                      // the block whose variables are visible
  size_t frames = 0;  // number among the frames that made the op; 1 is the outermost
  size_t python = 0;  // which of Python's frames, counted from the innermost
};
// `op`, unless it is 0, is another op of the plan, looked at from that frame. Throws Error when
// there is no such op.
FrameScope FindFrame(const FrameView& frame, const Position& at, uint32_t index, uint32_t op = 0);
// The meaning of names there.
PythonNames NamesIn(const FrameView& frame, const FrameScope& at, PythonNames::Of of);

}  // namespace opstep
