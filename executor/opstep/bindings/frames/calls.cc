// Python gives the position of a frame, but not which of several calls of a function it belongs to:
// a frame that has ended and the one after it may have the same address. So each frame that made an
// op is marked, by an object in its `f_trace` that goes away with it. Only trace functions use that
// attribute; a frame that has one is known by its address.
#include "opstep/bindings/frames/calls.h"

#include <algorithm>
#include <map>
#include <memory>

#include "debug/agent.h"
#include "opstep/bindings/frames/call_names.h"
#include "opstep/bindings/frames/flow.h"

namespace opstep::python {
namespace {

// One call of a function, for as long as its frame lives.
struct Call {
  uint64_t serial = 0;
  bool traced = false;  // known by its frame's address: another call may have that later
  // Its position when it made its last op, and which execution of that line it was.
  uint32_t line = 0;
  uint32_t place = 0;
  uint64_t callee = 0;
  uint64_t visit = 0;
  LoopState loop;
  CallNames names;
};

uint64_t last_serial = 0;
uint64_t last_visit = 0;

// --- marks ---------------------------------------------------------------------------------------

struct MarkObject {
  PyObject_HEAD uint64_t serial;
  Call* call;  // null: of a frame that is not the user's
};

void FreeMark(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<MarkObject*>(self)->call;
  type->tp_free(self);
  Py_DECREF(type);
}

// A tracer was set for a marked frame: the mark has nothing to do.
PyObject* CallMark(PyObject* self, PyObject*, PyObject*) {
  Py_INCREF(self);
  return self;
}

template <typename F>
void* Slot(F* function) {
  return reinterpret_cast<void*>(function);
}

PyTypeObject* MarkType() {
  static PyTypeObject* const type = [] {
    static std::array<PyType_Slot, 3> slots{{
        {Py_tp_dealloc, Slot(&FreeMark)},
        {Py_tp_call, Slot(&CallMark)},
        {},
    }};
    static PyType_Spec spec{"opstep._core.Call", sizeof(MarkObject), 0, Py_TPFLAGS_DEFAULT,
                            slots.data()};
    PyObject* made = PyType_FromSpec(&spec);
    if (!made) throw py::error_already_set();
    return reinterpret_cast<PyTypeObject*>(made);
  }();
  return type;
}

PyObject* Trace() {
  static PyObject* const name = PyUnicode_InternFromString("f_trace");
  return name;
}

// Calls whose frames are traced, by the frame's address and its code.
Call& TracedCall(PyFrameObject* frame) {
  thread_local std::map<std::pair<PyFrameObject*, uint32_t>, std::unique_ptr<Call>> calls;
  if (calls.size() > 1000) calls.clear();
  PyCodeObject* code = PyFrame_GetCode(frame);
  std::unique_ptr<Call>& call = calls[{frame, LookAt(code).number}];
  Py_DECREF(code);
  if (!call) {
    call = std::make_unique<Call>();
    call->serial = ++last_serial;
    call->traced = true;
  }
  return *call;
}

// What the frame is marked with, or null.
MarkObject* MarkOf(PyFrameObject* frame, bool* traced = nullptr) {
  PyObject* found = PyObject_GetAttr(reinterpret_cast<PyObject*>(frame), Trace());
  if (!found) throw py::error_already_set();
  Py_DECREF(found);  // the frame has it
  if (Py_TYPE(found) == MarkType()) return reinterpret_cast<MarkObject*>(found);
  if (traced) *traced = found != Py_None || PyThreadState_Get()->c_tracefunc;
  return nullptr;
}

// The same, created if missing; null for a frame that is being traced.
MarkObject* Marked(PyFrameObject* frame) {
  bool traced = false;
  if (MarkObject* mark = MarkOf(frame, &traced)) return mark;
  if (traced) return nullptr;
  auto* mark = PyObject_New(MarkObject, MarkType());
  if (!mark) throw py::error_already_set();
  mark->serial = ++last_serial;
  mark->call = nullptr;
  PyObject* const made = reinterpret_cast<PyObject*>(mark);
  const int failed = PyObject_SetAttr(reinterpret_cast<PyObject*>(frame), Trace(), made);
  Py_DECREF(made);  // the frame has it
  if (failed) throw py::error_already_set();
  return mark;
}

Call& CallOf(PyFrameObject* frame) {
  MarkObject* mark = Marked(frame);
  if (!mark) return TracedCall(frame);
  if (!mark->call) {
    mark->call = new Call;
    mark->call->serial = mark->serial;
  }
  return *mark->call;
}

uint64_t SerialOf(PyFrameObject* frame) {
  const MarkObject* mark = Marked(frame);
  return mark ? mark->serial : TracedCall(frame).serial;
}

// --- visits --------------------------------------------------------------------------------------

bool IsGenerator(PyFrameObject* frame) {
  PyCodeObject* const code = PyFrame_GetCode(frame);
  Py_DECREF(code);  // the frame has it
  return (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0;
}

// The frame makes an op now, in the call of `inner`. A new execution of a line begins when the
// frame comes from another line, goes back in its code, or makes another call from the same place.
void Visit(Call& call, const Code& code, PyFrameObject* frame, uint32_t line, uint32_t place,
           PyFrameObject* inner) {
  const uint64_t callee = inner ? SerialOf(inner) : 0;
  bool same = call.visit && call.line == line;
  if (place == call.place) {
    same = same && callee && callee == call.callee;
    // A generator continues in each iteration; a traced frame may be another call.
    if (same && (call.traced || IsGenerator(inner)))
      same = !HasGoneBack(code, frame, place, place, call.loop);
  } else {
    same = same && place > call.place && !HasGoneBack(code, frame, call.place, place, call.loop);
  }
  if (!same) call.visit = ++last_visit;
  if (!same || place != call.place) call.loop = LoopStateAt(code, frame, place);
  call.line = line;
  call.place = place;
  call.callee = callee;
}

thread_local std::vector<CallVisit> run_calls;

}  // namespace

void SetMadeBy(Program& program, proto::OpDesc& op) {
  const uint32_t next = program.desc().next_op_id();
  bool others = false;  // see CallNames
  ForEachUserFrame([&](const Code& code, PyFrameObject* frame, PyFrameObject* inner) {
    Call& call = CallOf(frame);
    const uint32_t before = call.place, place = PlaceIn(frame), line = LineAt(code, frame, place);
    Visit(call, code, frame, line, place, inner);
    const auto at = static_cast<uint32_t>(op.stack_size());
    ToldNames& told = call.names.ToldTo(program, at);
    if (told.visit != call.visit) {
      told.visit = call.visit;
      told.visit_number = CallNumber(next, at);
    }
    op.add_stack(FrameIndex(program, code, frame, place, line));
    op.add_calls(told.call);
    op.add_visits(told.visit_number);
    others =
        call.names.Look(code, frame, before, place, program, call.traced ? 0 : call.visit, others);
    if (at == 0) {
      for (const std::string& target : TargetsOf(code, place))
        op.add_targets(program.InternString(target));
    }
    call.names.Tell(program, told);
  });
}

void NoteNames(Program& program) {
  if (std::exchange(program.names_noted(), program.version()) == program.version()) return;
  ForEachUserFrame([&](const Code& code, PyFrameObject* frame, PyFrameObject*) {
    bool traced = false;
    const MarkObject* mark = MarkOf(frame, &traced);
    Call* const call = mark ? mark->call : traced ? &TracedCall(frame) : nullptr;
    ToldNames* const told = call ? call->names.FindTold(program) : nullptr;
    if (!told) return;
    call->names.Look(code, frame, call->place, call->place, program, 0, false);
    call->names.Tell(program, *told);
  });
}

void LiveCalls(std::vector<CallVisit>& calls) {
  calls.clear();
  ForEachUserFrame([&](const Code& code, PyFrameObject* frame, PyFrameObject* inner) {
    Call& call = CallOf(frame);
    const uint32_t place = PlaceIn(frame);
    Visit(call, code, frame, LineAt(code, frame, place), place, inner);
    calls.push_back({call.serial, call.visit});
  });
  std::reverse(calls.begin(), calls.end());
}

RunCalls::RunCalls() : before_(std::move(run_calls)) { LiveCalls(run_calls); }
RunCalls::~RunCalls() { run_calls = std::move(before_); }

void BindCalls(py::module_&) {
  SetRunCalls([]() -> const std::vector<CallVisit>& { return run_calls; });
}

}  // namespace opstep::python
