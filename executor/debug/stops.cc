#include "debug/stops.h"

#include <atomic>

#include "debug/agent.h"
#include "debug/plans.h"
#include "debug/slots.h"

namespace opstep {
namespace {

std::atomic<PythonStack> python_stack{nullptr};
constexpr size_t kMaxPythonFrames = 200;

void FillOp(const FrameView& frame, int block, const proto::OpDesc& op, proto::StackFrame* out) {
  const Plan& plan = frame.plan();
  FillOpInfo(plan, block, op, out->mutable_op());
  for (proto::VarInfo& var : *out->mutable_op()->mutable_outputs()) {
    var.clear_dims();
    for (const int64_t size : TypeNow(frame, plan.FindSlot(block, var.name())).dims)
      var.add_dims(size);
  }
  if (out->op().stack_size() == 0) return;
  const proto::SourceLine& line = out->op().stack(0);
  out->set_file(line.file());
  out->set_line(line.line());
  out->set_function(line.function());
}

FrameScope FindLevel(const FrameView& frame, uint32_t index) {
  const Activation* where = &frame.top();
  if (index == 0) {
    return {proto::StackFrame::OP, where, where->instruction->op, where->block, where->block};
  }
  for (uint32_t i = 1; where->parent; ++i, where = where->parent) {
    if (i == index) {
      return {proto::StackFrame::BLOCK, where, where->parent->instruction->op, where->parent->block,
              where->block};
    }
    if (!where->parent->parent && i + 1 == index) {
      const Activation* outermost = where->parent;
      return {proto::StackFrame::RUN, outermost, nullptr, outermost->block, outermost->block};
    }
  }
  if (!frame.top().parent && index == 1)
    return {proto::StackFrame::RUN, where, nullptr, where->block, where->block};
  Fail("frame ", index,
       " has no tensors: it is a Python frame or there is none; choose an op, a block or the run");
}

}  // namespace

void SetPythonStack(PythonStack read) { python_stack.store(read); }

void FillFrames(const FrameView& frame, proto::Stopped* stopped) {
  const Plan& plan = frame.plan();
  const auto add = [&](proto::StackFrame::Kind kind, const Activation& where) {
    proto::StackFrame* out = stopped->add_frames();
    out->set_kind(kind);
    out->set_program(plan.program_id);
    out->set_program_name(plan.program_name);
    out->set_block(static_cast<uint32_t>(where.block));
    out->set_iteration(where.iteration);
    out->set_step(frame.step());
    return out;
  };
  const Activation* where = &frame.top();
  proto::StackFrame* op = add(proto::StackFrame::OP, *where);
  FillOp(frame, where->block, *where->instruction->op, op);
  op->set_after(frame.after());
  for (; where->parent; where = where->parent) {
    FillOp(frame, where->parent->block, *where->parent->instruction->op,
           add(proto::StackFrame::BLOCK, *where));
  }
  proto::StackFrame* run = add(proto::StackFrame::RUN, *where);

  const PythonStack read = python_stack.load();
  const std::vector<SourceFrame> python = read ? read() : std::vector<SourceFrame>();
  for (size_t i = 0; i < python.size() && i < kMaxPythonFrames; ++i) {
    proto::StackFrame* out = stopped->add_frames();
    out->set_kind(proto::StackFrame::PYTHON);
    out->set_file(python[i].file);
    out->set_line(python[i].line);
    out->set_function(python[i].function);
    if (i == 0) {  // it called the run
      run->set_file(python[i].file);
      run->set_line(python[i].line);
    }
  }
}

FrameScope FindFrame(const FrameView& frame, uint32_t index, uint32_t op) {
  FrameScope at = FindLevel(frame, index);
  if (op == 0) return at;
  const proto::ProgramDesc& desc = frame.plan().desc;
  for (int block = 0; block < desc.blocks_size(); ++block) {
    for (const proto::OpDesc& other : desc.blocks(block).ops()) {
      if (other.id() != op) continue;
      // The iteration is that of its own block, if that is running.
      for (const Activation* level = &frame.top(); level; level = level->parent) {
        if (level->block == block) at.where = level;
      }
      return {proto::StackFrame::OP, at.where, &other, block, block};
    }
  }
  Fail("program '", frame.plan().program_name, "' has no op #", op);
}

}  // namespace opstep
