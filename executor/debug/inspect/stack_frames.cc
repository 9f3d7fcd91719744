// The stack of a stopped run: the op, the calls that made it, blocks, Python frames.
#include "debug/inspect/stack_frames.h"

#include <algorithm>
#include <atomic>

#include "debug/agent.h"
#include "debug/plans/bound_plans.h"
#include "debug/plans/program_messages.h"
#include "debug/plans/slots.h"
#include "runtime/traced_program.h"

namespace opstep {
namespace {

using Kind = proto::StackFrame;

std::atomic<PythonStack> python_stack{nullptr};
constexpr size_t kMaxPythonFrames = 200;

// The number of Python frames that are hidden because no step has entered them: those of an op that
// runs where it is made.
size_t NotEntered(const FrameView& frame, const Position& at) {
  return IsTraced(frame.plan()) && at.made ? at.made->size() - at.shown : 0;
}

// All frames but Python's, innermost first.
std::vector<FrameScope> Scopes(const FrameView& frame, const Position& at) {
  std::vector<FrameScope> scopes;
  const Plan& plan = frame.plan();
  const Activation* where = &frame.top();
  const proto::OpDesc* op = where->instruction->op;
  size_t frames = at.made ? at.shown : static_cast<size_t>(op->stack_size());
  scopes.push_back({Kind::OP, where, op, where->block, where->block, frames});
  // Lines of the calls that made an op, down to those that the op around it shares.
  const auto add_callers = [&](const proto::OpDesc& made, const Activation* in, int op_block,
                               const proto::OpDesc* around) {
    if (IsTraced(plan)) return;  // They are still running, so they are Python frames.
    size_t last = 0;
    if (around) {
      const MadeBy inner = MadeByOf(plan, made), outer = MadeByOf(plan, *around);
      const size_t calls = SameCalls(inner, outer);
      // The function that made the op around is shown on the line of its call, if that is a
      // different line.
      last = calls == outer.size() && calls > 0 && !(inner[calls - 1] == outer[calls - 1])
                 ? calls - 1
                 : calls;
    }
    for (size_t n = frames; n-- > last + 1;)
      scopes.push_back({Kind::MADE, in, &made, op_block, in->block, n});
  };
  for (; where->parent; where = where->parent) {
    const Activation* outer = where->parent;
    const proto::OpDesc* runs = outer->instruction->op;
    add_callers(*op, where, scopes.back().op_block, runs);
    frames = static_cast<size_t>(runs->stack_size());
    scopes.push_back({Kind::BLOCK, where, runs, outer->block, where->block, frames});
    op = runs;
  }
  add_callers(*op, where, scopes.back().op_block, nullptr);
  scopes.push_back({Kind::RUN, where, nullptr, where->block, where->block, 0});
  return scopes;
}

void FillOp(const FrameView& frame, const FrameScope& at, proto::StackFrame* out) {
  const Plan& plan = frame.plan();
  FillOpInfo(plan, at.op_block, *at.op, out->mutable_op());
  for (proto::VarInfo& var : *out->mutable_op()->mutable_outputs()) {
    var.clear_dims();
    for (const int64_t size : TypeNow(frame, plan.FindSlot(at.op_block, var.name())).dims)
      var.add_dims(size);
  }
  const auto count = static_cast<size_t>(out->op().stack_size());
  if (at.frames == 0 || at.frames > count) return;
  const proto::SourceLine& line = out->op().stack(static_cast<int>(count - at.frames));
  out->set_file(line.file());
  out->set_line(line.line());
  out->set_function(line.function());
}

}  // namespace

void SetPythonStack(PythonStack read) { python_stack.store(read); }

void FillFrames(const FrameView& frame, const Position& at, proto::Stopped* stopped) {
  const Plan& plan = frame.plan();
  int run = 0;
  for (const FrameScope& scope : Scopes(frame, at)) {
    run = stopped->frames_size();
    proto::StackFrame* out = stopped->add_frames();
    out->set_kind(scope.kind);
    out->set_program(plan.program_id);
    out->set_program_name(plan.program_name);
    out->set_block(static_cast<uint32_t>(scope.where->block));
    out->set_iteration(scope.where->iteration);
    out->set_step(frame.step());
    if (scope.op) FillOp(frame, scope, out);
    if (scope.kind == Kind::OP) out->set_after(frame.after());
  }
  const PythonStack read = python_stack.load();
  const std::vector<SourceFrame> python = read ? read() : std::vector<SourceFrame>();
  for (size_t i = NotEntered(frame, at); i < python.size() && i < kMaxPythonFrames; ++i) {
    proto::StackFrame* out = stopped->add_frames();
    out->set_kind(Kind::PYTHON);
    out->set_file(python[i].file);
    out->set_line(python[i].line);
    out->set_function(python[i].function);
    if (stopped->frames_size() == run + 2) {  // it called the run
      stopped->mutable_frames(run)->set_file(python[i].file);
      stopped->mutable_frames(run)->set_line(python[i].line);
    }
  }
}

FrameScope FindFrame(const FrameView& frame, const Position& at, uint32_t index, uint32_t op) {
  const std::vector<FrameScope> scopes = Scopes(frame, at);
  FrameScope found;
  if (index < scopes.size()) {
    found = scopes[index];
  } else {
    // The names are Python's; variables are looked up as from the run.
    found = scopes.back();
    found.kind = Kind::PYTHON;
    found.python = NotEntered(frame, at) + index - scopes.size();
  }
  if (found.kind == Kind::RUN) found.python = NotEntered(frame, at);
  if (IsTraced(frame.plan()) && found.kind == Kind::OP) found.python = NotEntered(frame, at);
  if (op == 0) return found;
  const proto::ProgramDesc& desc = frame.plan().desc;
  for (int block = 0; block < desc.blocks_size(); ++block) {
    for (const proto::OpDesc& other : desc.blocks(block).ops()) {
      if (other.id() != op) continue;
      // The iteration is that of its own block, if that is running.
      for (const Activation* level = &frame.top(); level; level = level->parent) {
        if (level->block == block) found.where = level;
      }
      const auto frames = static_cast<size_t>(other.stack_size());
      return {Kind::OP, found.where, &other, block, block, frames, found.python};
    }
  }
  Fail("program '", frame.plan().program_name, "' has no op #", op);
}

PythonNames NamesIn(const FrameView& frame, const FrameScope& at, PythonNames::Of of) {
  const bool running = at.kind == Kind::RUN || at.kind == Kind::PYTHON || IsTraced(frame.plan());
  if (running && at.kind == Kind::OP) {
    return PythonNames::RunningAt(frame.plan(), *at.op, at.python, of);
  }
  if (running) return PythonNames::Running(at.python, of);
  const bool after = frame.after() && at.op_block == frame.top().block;
  return PythonNames::Made(frame.plan(), *at.op, at.frames, after);
}

}  // namespace opstep
