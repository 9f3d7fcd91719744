"""Our own requests for views of programs: their ops as a graph, the position of a thread in it, and
the values made so far."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from opstep_server import expr, values
from opstep_server.dap.protocol.framing import Json
from opstep_server.dap.protocol.request_arguments import Arguments, RequestError
from opstep_server.dap.protocol.request_rules import Run, When, request
from opstep_server.dap.requests.disassembly import address
from opstep_server.dap.stops import Stop
from opstep_server.dataflow import Dataflow
from opstep_server.debugger import DebuggerError, ProgramRef
from opstep_server.wire import debug_pb2 as pb, program_pb2

if TYPE_CHECKING:
    from opstep_server.dap.adapter_session import AdapterSession

# The most values of one request; a view asks for those on the screen.
MAX_VALUES = 2000


class GraphRequests:
    def __init__(self, session: AdapterSession) -> None:
        self._session = session

    @request(run=Run.INSPECTION)
    async def opstepGraph_request(self, arguments: Arguments) -> Json:
        ref = find_program(self._session, arguments.string("program"))
        ops = await self._session.debugger.ops(ref)
        return {
            "id": _module_id(ref.executor.id, ref.event.program),
            "name": ref.event.name,
            "version": ref.event.version,
            "listing": self._session.sources.listing(ref),
            # Block 0 is the program itself.
            "blocks": [
                {"id": run.block, "op": op.id, "name": run.name} for op in ops for run in op.blocks
            ],
            "ops": [self._op(ref, op) for op in ops],
            "edges": [
                {"from": edge.maker, "to": edge.reader, "variables": edge.variables}
                for edge in Dataflow(ref, ops).edges()
            ],
        }

    @request(When.STOPPED, Run.INSPECTION)
    async def opstepPlace_request(self, arguments: Arguments) -> Json:
        stop = self._stop(arguments)
        frames = [f for f in stop.stopped.frames if f.kind != pb.StackFrame.PYTHON]
        top = frames[0]
        run = next((f for f in frames if f.kind == pb.StackFrame.RUN), top)
        place: Json = {
            "threadId": stop.thread.id,
            "program": _module_id(stop.thread.executor.id, top.program),
            "programName": top.program_name,
            "run": run.step,
            # The op, then the ops around it, innermost first.
            "ops": [f.op.id for f in frames if f.kind in (pb.StackFrame.OP, pb.StackFrame.BLOCK)],
            "iterations": [f.iteration for f in frames if f.kind == pb.StackFrame.BLOCK],
            "after": top.after,
        }
        if stop.stopped.HasField("fault"):
            place["fault"] = stop.stopped.message
        return place

    @request(When.STOPPED, Run.INSPECTION)
    async def opstepValues_request(self, arguments: Arguments) -> Json:
        stop = self._stop(arguments)
        names = arguments.strings("variables")
        if len(names) > MAX_VALUES:
            raise RequestError(f"{len(names)} values are too many: at most {MAX_VALUES} at a time")
        found = await asyncio.gather(*(self._value(stop, name) for name in names))
        return {"values": [value for value in found if value is not None]}

    @request(When.STOPPED, Run.INSPECTION)
    async def opstepNames_request(self, arguments: Arguments) -> Json:
        """The frame's Python names of variables, and the lines that assigned them."""
        ref = self._session.stops.frame(arguments.integer("frameId"))
        if ref.index is None or ref.frame is None:
            return {"path": "", "names": []}
        names = await self._session.debugger.names(ref.stop.thread.id, ref.index)
        line = self._session.client.line
        return {
            "path": ref.frame.file,
            "names": [
                {
                    "name": each.name,
                    "variable": each.variable,
                    **({"line": line(each.line)} if each.line else {}),
                }
                for each in names.python
            ],
        }

    # ---- inside ----------------------------------------------------------------------------------

    def _stop(self, arguments: Arguments) -> Stop:
        frame = arguments.optional_integer("frameId")
        if frame is not None:
            return self._session.stops.frame(frame).stop
        return self._session.stops.get(arguments.integer("threadId"))

    def _op(self, ref: ProgramRef, op: pb.OpInfo) -> Json:
        at = address(ref.executor.id, ref.event.program, op.listing_line)
        line = self._session.client.line
        return {
            "id": op.id,
            "name": op.name,
            "type": op.type,
            "block": op.block,
            "forward": op.forward_op,
            "gradient": bool(op.forward_op or op.forward_name),
            **({"forwardName": op.forward_name} if op.forward_name else {}),
            "listingLine": line(op.listing_line),
            "instructionReference": f"{at:#x}",
            "inputs": [{"slot": each.slot, "variable": each.variable} for each in op.inputs],
            "outputs": [
                {"variable": var.name, "type": values.type_name(var.dtype, var.dims)}
                for var in op.outputs
            ],
            # The innermost line first.
            "stack": [{"path": made.file, "line": line(made.line)} for made in op.stack],
        }

    async def _value(self, stop: Stop, variable: str) -> Json | None:
        """The variable's value; None when it has none at this stop."""
        try:
            value = await self._session.debugger.evaluate(
                stop.thread.id, 0, expr.variable(variable), max_elements=values.SMALL
            )
        except DebuggerError:
            return None
        if value.WhichOneof("kind") == "absent":
            return None
        summary = value.tensor.summary
        return {
            "variable": variable,
            "value": values.describe(value),
            "brief": _brief(value),
            "nan": summary.nan,
            "inf": summary.inf,
        }


def find_program(session: AdapterSession, id: str) -> ProgramRef:
    for ref in session.debugger.programs:
        if _module_id(ref.executor.id, ref.event.program) == id:
            return ref
    raise RequestError(f"there is no program '{id}' in this session: ask for the modules again")


def _module_id(executor: int, program: int) -> str:
    return f"{executor}:{program}"


def _brief(value: pb.Value) -> str:
    """Short text for the end of a line: `float32[128, 10] mean 0.01`, or the number itself."""
    if value.WhichOneof("kind") != "tensor":
        return values.describe(value)
    tensor = value.tensor
    summary = tensor.summary
    if values.count(tensor) == 1 or tensor.dtype == program_pb2.BOOL:
        return values.describe(value)
    text = values.type_name(tensor.dtype, tensor.dims)
    if summary.nan + summary.inf < summary.count:
        text += f" mean {values.number(summary.mean)}"
    if summary.nan:
        text += f", {summary.nan} NaN"
    if summary.inf:
        text += f", {summary.inf} Inf"
    return text
