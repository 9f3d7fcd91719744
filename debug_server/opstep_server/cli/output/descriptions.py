"""Descriptions in words: of stops, frames, ops, breakpoints and source lines."""

from __future__ import annotations

import difflib
import fnmatch
import linecache
import os
import signal
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from opstep_server import values
from opstep_server.model import (
    BlockWhere,
    BreakpointSpec,
    BreakpointState,
    DataWhere,
    ListingWhere,
    PatternWhere,
    SourceWhere,
    Thread,
)
from opstep_server.wire import debug_pb2 as pb

_REASONS = {
    pb.STOP_STEP: "step",
    pb.STOP_PAUSE: "pause",
    pb.STOP_ENTRY: "entry",
    pb.STOP_NAN: "NaN",
    pb.STOP_INF: "Inf",
    pb.STOP_OVERFLOW: "overflow",
    pb.STOP_ERROR: "error",
    pb.STOP_CODE: "breakpoint() in the program",
}

# Styles on a terminal, by the kind of stop; faults are red.
_STYLES = {
    pb.STOP_STEP: "bold green",
    pb.STOP_PAUSE: "bold cyan",
    pb.STOP_ENTRY: "bold cyan",
    pb.STOP_BREAKPOINT: "bold yellow",
    pb.STOP_CODE: "bold yellow",
}


def path(file: str) -> str:
    """The path, relative if it is below the current folder."""
    relative = os.path.relpath(file)
    return file if relative.startswith(os.pardir) else relative


def thread(thread: Thread) -> str:
    return f"thread {thread.id} ({thread.name})"


def goes_on(pid: int, later: str = "") -> str:
    later = later or f"'opstep attach {pid}' comes back to it"
    return f"process {pid} goes on without the debugger: {later}"


def how_ended(code: int) -> str:
    """The end of a process by its exit code; negative: by that signal."""
    if code >= 0:
        return f"with exit code {code}"
    try:
        return f"by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"by signal {-code}"


def stop_line(stopped: pb.Stopped, others: bool = False) -> str:
    """`stopped at op #14 fc_0.matmul (matmul) → …, train.py:10, run 3: breakpoint 1`; with `others`
    only breakpoints of other clients were hit."""
    parts = ["stopped"]
    if stopped.frames:
        top = stopped.frames[0]
        when = "after" if top.after else "at"
        parts = [f"stopped {when} op {op_line(top.op)}" if top.HasField("op") else "stopped"]
        if top.file:
            parts.append(f"{path(top.file)}:{top.line}")
        parts += blocks(stopped.frames)
        run = next((f for f in stopped.frames if f.kind == pb.StackFrame.RUN), None)
        if run is not None:
            parts.append(f"run {run.step}")
    return f"{', '.join(parts)}: {reason(stopped, others)}"


def reason(stopped: pb.Stopped, others: bool = False) -> str:
    if stopped.message.startswith("the condition of breakpoint"):
        return stopped.message  # The message names the breakpoint.
    if stopped.reason == pb.STOP_BREAKPOINT and (others or not stopped.breakpoints):
        text = "breakpoint of another client"
    elif stopped.reason == pb.STOP_BREAKPOINT:
        plural = "s" if len(stopped.breakpoints) > 1 else ""
        text = f"breakpoint{plural} " + ", ".join(map(str, stopped.breakpoints))
    else:
        text = _REASONS.get(stopped.reason, "unknown reason")
    return f"{text}: {stopped.message}" if stopped.message else text


def stop_style(stopped: pb.Stopped) -> str:
    return _STYLES.get(stopped.reason, "bold red")


def blocks(frames: Sequence[pb.StackFrame]) -> Iterator[str]:
    """`while_0 iteration 3` for each block around the op, innermost first."""
    for frame in frames:
        if frame.kind == pb.StackFrame.BLOCK:
            yield f"{frame.op.name} iteration {frame.iteration}"


def op_line(op: pb.OpInfo) -> str:
    """`#14 fc_0.matmul (matmul) → fc_0.out float32[128, 32]`."""
    text = f"#{op.id} {op.name} ({op.type})"
    return f"{text} → {values.outputs_text(op)}" if op.outputs else text


def is_gradient(op: pb.OpInfo) -> bool:
    """Of an op of its own program or of another one."""
    return bool(op.forward_op or op.forward_name)


def op_row(op: pb.OpInfo) -> tuple[str, str, str, str, str]:
    """Number, name, type, line and outputs, for a table."""
    made = values.outputs_text(op)
    return f"#{op.id}", op.name, op.type, op_place(op), f"→ {made}" if made else ""


def size(count: int) -> str:
    """`1.5 MB`; bytes up to a thousand of them."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":
            break
        amount /= 1000
    return f"{count} bytes" if unit == "bytes" else f"{amount:.3g} {unit}"


def op_place(op: pb.OpInfo) -> str:
    return f"{path(op.stack[0].file)}:{op.stack[0].line}" if op.stack else ""


def frame_line(frame: pb.StackFrame) -> str:
    if frame.kind == pb.StackFrame.OP:
        when = "after op" if frame.after else "op"
        text = f"{when} #{frame.op.id} {frame.op.name} ({frame.op.type})"
    elif frame.kind == pb.StackFrame.BLOCK:
        text = f"block of #{frame.op.id} {frame.op.name}, iteration {frame.iteration}"
    elif frame.kind == pb.StackFrame.RUN:
        text = f"run {frame.step} of {frame.program_name}"
    elif frame.kind == pb.StackFrame.MADE:
        text = f"made in {frame.function}"
    else:
        text = f"python {frame.function}"
    return f"{text}, {path(frame.file)}:{frame.line}" if frame.file else text


def source_line(file: str, line: int) -> str | None:
    """`10      hidden = …`, or None when the line cannot be read."""
    linecache.checkcache(file)
    text = linecache.getline(file, line).rstrip()
    return f"{line:<6}{text}" if text else None


def numbered(
    lines: Sequence[str], first: int, last: int, marks: Mapping[int, str], signs: Mapping[int, str]
) -> Iterator[str]:
    """Lines `first` to `last`, from 1, with their marks, of two characters, and signs, of one."""
    width = len(str(last))
    for number in range(first, last + 1):
        mark = marks.get(number, "  ")
        text = lines[number - 1].rstrip()
        yield f"{mark}{signs.get(number, ' ')} {number:>{width}}  {text}".rstrip()


def place(spec: BreakpointSpec) -> str:
    place = spec.where
    if isinstance(place, SourceWhere):
        text = f"{path(place.file)}:{place.line}" + (" grad" if spec.gradients else "")
    elif isinstance(place, ListingWhere):
        text = "listing:" + (f"{place.program_name}:" if place.program_name else "")
        text += str(place.line)
    elif isinstance(place, PatternWhere):
        pattern = place.pattern
        text = pattern[5:] + " grad" if pattern.startswith("grad:") else pattern
    elif isinstance(place, DataWhere):
        text = f"{'change' if place.changed else 'write'} of {place.variable}"
    elif isinstance(place, BlockWhere):
        text = f"block:{place.block}"
    else:
        text = f"#{place.op}"
        if place.program:
            text += f" of {place.program_name or f'program {place.program}'}"
    return text


def where(spec: BreakpointSpec) -> str:
    text = place(spec)
    if spec.condition:
        text += f" if {spec.condition}"
    return f"{text}, hits {spec.hit_condition.strip()}" if spec.hit_condition else text


def breakpoint_line(state: BreakpointState, hint: str = "") -> str:
    text = f"breakpoint {state.id} at {where(state.spec)}"
    if state.spec.log_message:
        text = f"log point {state.id} at {where(state.spec)}, log {state.spec.log_message}"
    if state.spec.temporary:
        text = f"temporary {text}"
    if not state.spec.enabled:
        return f"{text}: disabled"
    text += f": {binding(state, hint)}"
    if state.verified and state.hits:
        what = "logged" if state.spec.log_message else "stopped"
        text += f", {what} {state.hits} time{'' if state.hits == 1 else 's'}"
    return f"{text}; {state.message}" if state.verified and state.message else text


def binding(state: BreakpointState, hint: str = "") -> str:
    """`2 ops, first #3 fc_0.matmul (matmul), train.py:10`, or why it is bound to none."""
    if not state.verified:
        return f"pending: {why_not(state, hint)}"
    text = f"{state.op_count} op{'' if state.op_count == 1 else 's'}"
    if state.first is not None:
        first = state.first
        text += f", first #{first.id} {first.name} ({first.type})"
        if first.stack:
            text += f", {op_place(first)}"
    return text


def breakpoint_table(states: Sequence[BreakpointState], hints: Sequence[str]) -> Iterator[str]:
    """A row for each breakpoint, and further lines below its place."""
    rows = [("num", "kind", "on", "hits", "where")] if states else []
    for state, hint in zip(states, hints, strict=True):
        spec = state.spec
        first = (str(state.id), _kind(spec), "yes" if spec.enabled else "no", str(state.hits))
        below = [binding(state, hint)] if spec.enabled else []
        if state.verified and state.message:
            below = [f"{below[0]}; {state.message}"]
        clauses = (("if", spec.condition), ("hits", spec.hit_condition), ("log", spec.log_message))
        said = [f"{word} {text.strip()}" for word, text in clauses if text]
        rows.append((*first, place(spec)))
        rows += [("", "", "", "", line) for line in said + below]
    return table(rows, indent="")


def _kind(spec: BreakpointSpec) -> str:
    kind = "watch" if isinstance(spec.where, DataWhere) else "break"
    if spec.log_message:
        kind = "log"
    return f"{kind} once" if spec.temporary else kind


def why_not(state: BreakpointState, hint: str = "") -> str:
    """Why it is not bound to an op: the executor's own sentence, which may name near ones."""
    return f"{state.message}; {hint}" if hint and "nearest" not in state.message else state.message


def nearest(state: BreakpointState, known: Iterable[str], variables: Collection[str] = ()) -> str:
    """`nearest names: …` for a pattern that matches none of the known ops; otherwise empty."""
    place = state.spec.where
    if state.verified or not isinstance(place, PatternWhere):
        return ""
    names = list(known)
    if fnmatch.filter(names, place.pattern):
        return ""  # There are such ops: the condition keeps it from binding.
    wanted = place.pattern.removeprefix("grad:")
    if wanted in variables:
        return f"'{wanted}' is a variable: 'watch {wanted}' stops when it is written"
    wanted = wanted.replace("*", "").replace("?", "")
    near = difflib.get_close_matches(wanted, names, n=4, cutoff=0.4)
    return "nearest names: " + ", ".join(near) if near else ""


def table(rows: Sequence[Sequence[str]], indent: str = "  ") -> Iterator[str]:
    """Aligned columns, the last one of any length."""
    if not rows:
        return
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield (indent + "  ".join([*cells, row[-1]])).rstrip()
