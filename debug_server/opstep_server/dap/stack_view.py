"""A stop's stack as clients see it: the op, the calls that made it, its blocks, the run, a border,
the Python frames."""

from __future__ import annotations

import os
import sysconfig
from typing import TYPE_CHECKING

from opstep_server import values
from opstep_server.dap.protocol import types
from opstep_server.dap.requests.disassembly import address
from opstep_server.dap.stops import FrameRef, Stop
from opstep_server.notebook_cells import is_cell
from opstep_server.wire import debug_pb2 as pb

if TYPE_CHECKING:
    from opstep_server.dap.adapter_session import AdapterSession

BORDER = "[Python]"
_PACKAGES = ("/site-packages/", "/dist-packages/", sysconfig.get_paths()["stdlib"] + os.sep)


def op_title(op: pb.OpInfo) -> str:
    """`fc_0.matmul (matmul) → fc_0.out float32[128, 32]`."""
    outputs = values.outputs_text(op)
    return f"{op.name} ({op.type})" + (f" → {outputs}" if outputs else "")


def frame_title(frame: pb.StackFrame) -> str:
    if frame.kind == pb.StackFrame.OP:
        return op_title(frame.op) + (" (has run)" if frame.after else "")
    if frame.kind == pb.StackFrame.BLOCK:
        return f"{frame.op.name} body, iteration {frame.iteration}"
    if frame.kind == pb.StackFrame.RUN:
        return f"run {frame.step} of {frame.program_name}"
    if frame.kind == pb.StackFrame.MADE:
        return f"made in {frame.function}"
    return frame.function or "<module>"


def creation_stack(op: pb.OpInfo) -> str:
    """The stack as in a Python traceback: the innermost line last."""
    lines = (f'  File "{at.file}", line {at.line}, in {at.function}' for at in reversed(op.stack))
    return "\n".join(lines)


class StackView:
    def __init__(self, session: AdapterSession) -> None:
        self._session = session

    def frames(self, stop: Stop) -> list[types.StackFrame]:
        """The frames, made once for each stop without a round trip."""
        if not stop.frames:
            in_python = False
            for index, frame in enumerate(stop.stopped.frames):
                if frame.kind == pb.StackFrame.PYTHON:
                    if self._session.lifecycle.just_my_code and _in_package(frame.file):
                        continue
                    if not in_python:
                        stop.frames.append(self._border(stop))
                        in_python = True
                stop.frames.append(self._frame(stop, index, frame))
        return stop.frames

    def _border(self, stop: Stop) -> types.StackFrame:
        handle = self._session.stops.frames.add(stop.thread.id, FrameRef(stop, None))
        return {
            "id": handle,
            "name": BORDER,
            "line": 0,
            "column": 0,
            "presentationHint": "label",
        }

    def _frame(self, stop: Stop, index: int, frame: pb.StackFrame) -> types.StackFrame:
        client = self._session.client
        handle = self._session.stops.frames.add(stop.thread.id, FrameRef(stop, index))
        shown: types.StackFrame = {
            "id": handle,
            "name": frame_title(frame),
            "line": 0,
            "column": 0,
        }
        source, line = self._place(stop, frame)
        if source is not None:
            shown["source"] = source
            shown["line"] = client.line(line)
            shown["column"] = client.first_column
        executor = stop.thread.executor.id
        if frame.kind not in (pb.StackFrame.RUN, pb.StackFrame.PYTHON) and frame.op.listing_line:
            at = address(executor, frame.program, frame.op.listing_line)
            shown["instructionPointerReference"] = f"{at:#x}"
        if frame.kind != pb.StackFrame.PYTHON:
            shown["moduleId"] = f"{executor}:{frame.program}"
        return shown

    def _place(self, stop: Stop, frame: pb.StackFrame) -> tuple[types.Source | None, int]:
        """The user's line; the listing for an op without a line that can be shown."""
        file, line = frame.file, frame.line
        if not file and frame.op.stack:
            file, line = frame.op.stack[0].file, frame.op.stack[0].line
        if file and not is_cell(file):
            return _source(file), line
        program = None
        if frame.op.listing_line:
            program = self._session.sources.program(stop.thread.executor, frame.program)
        if program is None:
            return (_source(file), line) if file else (None, 0)
        return self._session.sources.listing(program), frame.op.listing_line


def _source(file: str) -> types.Source:
    """An editor opens the path; a notebook's cell has none."""
    if is_cell(file):
        return {"name": file}
    return {"name": os.path.basename(file), "path": file}


def _in_package(file: str) -> bool:
    return file.startswith("<") or any(part in file for part in _PACKAGES)
