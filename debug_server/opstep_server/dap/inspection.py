"""Requests that look at a stopped thread: its stack, scopes, values and what stopped it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from opstep_server import expr, values
from opstep_server.dap.arguments import Arguments, RequestError
from opstep_server.dap.framing import Json
from opstep_server.dap.rules import Run, When, request
from opstep_server.dap.stack import StackView, creation_stack
from opstep_server.dap.stops import FrameRef, ListRef, ScopeRef, Stop, TensorRef
from opstep_server.wire import debug_pb2 as pb

if TYPE_CHECKING:
    from opstep_server.dap.session import Session

# How many children one response holds at the most; clients with paging ask for far less.
MAX_CHILDREN = 1000

_SCOPES = (
    # Of the op, of the op that runs the block, or what the run is fed and fetches.
    ("Inputs", pb.SCOPE_INPUTS, False),
    ("Outputs", pb.SCOPE_OUTPUTS, False),
    ("Attributes", pb.SCOPE_ATTRIBUTES, False),
    ("Block", pb.SCOPE_BLOCK, False),
    # Expensive: the client does not open them unasked.
    ("Parameters", pb.SCOPE_PARAMETERS, True),
    ("Gradients", pb.SCOPE_GRADIENTS, True),
)
_EXCEPTION_IDS = {pb.STOP_NAN: "nan", pb.STOP_INF: "inf", pb.STOP_ERROR: "error"}
# A variable's name that the expression language reads as that name.
_TYPABLE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
# What can be indexed without brackets around it.
_POSTFIX = re.compile(r"[\w.]+(\[[^][]*\]|\([^()]*\))*")


class Inspection:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._stack = StackView(session)

    @request(When.STOPPED, Run.LOOKING, supportsDelayedStackTraceLoading=True)
    async def stackTrace_request(self, arguments: Arguments) -> Json:
        stop = self._session.stops.get(arguments.integer("threadId"))
        start = arguments.natural("startFrame", 0)
        levels = arguments.natural("levels", 0)
        frames = self._stack.frames(stop)
        chosen = frames[start : start + levels] if levels else frames[start:]
        return {"stackFrames": chosen, "totalFrames": len(frames)}

    @request(When.STOPPED, Run.LOOKING)
    async def scopes_request(self, arguments: Arguments) -> Json:
        ref = self._session.stops.frame(arguments.integer("frameId"))
        frame = ref.frame
        if ref.index is None or frame is None or frame.kind == pb.StackFrame.PYTHON:
            return {"scopes": []}
        scopes = []
        for name, kind, expensive in _SCOPES:
            if kind == pb.SCOPE_ATTRIBUTES and frame.kind == pb.StackFrame.RUN:
                continue
            scope = ScopeRef(ref.stop, ref.index, kind)
            handle = self._session.stops.variables.add(ref.stop.thread.id, scope)
            scopes.append({"name": name, "variablesReference": handle, "expensive": expensive})
        return {"scopes": scopes}

    @request(When.STOPPED, Run.LOOKING)
    async def variables_request(self, arguments: Arguments) -> Json:
        ref = self._session.stops.variable(arguments.integer("variablesReference"))
        wanted = arguments.one_of("filter", ("named", "indexed", ""), "")
        start = arguments.natural("start", 0)
        count = min(arguments.natural("count", 0) or MAX_CHILDREN, MAX_CHILDREN)
        named = isinstance(ref, ScopeRef)
        if wanted and (wanted == "named") != named:
            return {"variables": []}
        if isinstance(ref, ScopeRef):
            return {"variables": await self._scope(ref, start, count)}
        if isinstance(ref, TensorRef):
            return {"variables": await self._elements(ref, start, count)}
        items = enumerate(ref.values[start : start + count], start)
        return {"variables": [self._plain(f"[{i}]", value) for i, value in items]}

    @request(When.STOPPED, Run.LOOKING, supportsEvaluateForHovers=True)
    async def evaluate_request(self, arguments: Arguments) -> Json:
        text = arguments.string("expression").strip()
        ref = self._evaluation_frame(arguments.optional_integer("frameId"))
        if ref.index is None:
            raise RequestError("a Python frame has no tensors: choose the op, a block or the run")
        parsed = expr.parse(text)
        value = await self._session.debugger.evaluate(
            ref.stop.thread.id, ref.index, parsed, max_elements=values.SMALL
        )
        typed = text if _POSTFIX.fullmatch(text) else f"({text})"
        shown = self._value(ref.stop, ref.index, value, parsed, typed)
        shown["result"] = shown.pop("value")
        shown.pop("evaluateName", None)
        return shown

    @request(When.STOPPED, Run.LOOKING)
    async def exceptionInfo_request(self, arguments: Arguments) -> Json:
        stop = self._session.stops.get(arguments.integer("threadId"))
        exception = _EXCEPTION_IDS.get(stop.stopped.reason)
        if exception is None:
            raise RequestError(f"thread {stop.thread.id} is not stopped by NaN, Inf or an error")
        details: Json = {"message": stop.stopped.message, "typeName": exception}
        if stop.stopped.frames and stop.stopped.frames[0].op.stack:
            details["stackTrace"] = creation_stack(stop.stopped.frames[0].op)
        return {
            "exceptionId": exception,
            "description": stop.stopped.message,
            "breakMode": "always",
            "details": details,
        }

    # ---- values ----------------------------------------------------------------------------------

    def _evaluation_frame(self, handle: int | None) -> FrameRef:
        if handle is None:
            return FrameRef(self._session.stops.newest(), 0)
        ref = self._session.stops.frame(handle)
        if ref.frame is not None and ref.frame.kind == pb.StackFrame.PYTHON:
            return FrameRef(ref.stop, None)
        return ref

    async def _scope(self, ref: ScopeRef, start: int, count: int) -> list[Json]:
        found: list[Json] = []
        while len(found) < count:
            # A reply is bounded by the wire's message size: what is missing is asked for again.
            page = await self._session.debugger.variables(
                ref.stop.thread.id, ref.frame, ref.scope, start + len(found), count - len(found)
            )
            found += [self._named(ref, entry) for entry in page.variables]
            if not page.variables or start + len(found) >= page.total:
                break
        return found

    def _named(self, ref: ScopeRef, entry: pb.NamedValue) -> Json:
        name, variable = entry.name, entry.variable
        typed, expression = name, pb.Expr(name=name)
        if variable:
            if variable != name:
                name = f"{name} ({variable})"
            # By var(), which an op's slot of the same name does not come before.
            typed = variable if _TYPABLE.fullmatch(variable) else f'var("{variable}")'
            call = pb.Expr.Call(function="var", args=[pb.Expr(s=variable)])
            expression = pb.Expr(call=call)
        return {"name": name, **self._value(ref.stop, ref.frame, entry.value, expression, typed)}

    async def _elements(self, ref: TensorRef, start: int, count: int) -> list[Json]:
        count = min(count, ref.length - start)
        if count <= 0:
            return []
        value = await self._session.debugger.evaluate(
            ref.stop.thread.id,
            ref.frame,
            ref.expr,
            max_elements=values.SMALL,
            start=start,
            count=count,
        )
        shown = []
        for position, child in enumerate(value.tensor.children, start):
            at = pb.Expr.Subscript(index=pb.Expr(i=position))
            element = pb.Expr(index=pb.Expr.Index(value=ref.expr, subscripts=[at]))
            typed = f"{ref.text}[{position}]" if ref.text else ""
            described = self._value(ref.stop, ref.frame, child, element, typed)
            shown.append({"name": f"[{position}]", **described})
        return shown

    def _plain(self, name: str, value: pb.Value) -> Json:
        return {"name": name, "value": values.describe(value), "variablesReference": 0}

    def _value(
        self, stop: Stop, frame: int, value: pb.Value, expression: pb.Expr, typed: str
    ) -> Json:
        """What a variable and an evaluation's result have in common."""
        shown: Json = {"value": values.describe(value), "variablesReference": 0}
        thread_id, handles = stop.thread.id, self._session.stops.variables
        kind = value.WhichOneof("kind")
        if typed and kind != "absent":
            shown["evaluateName"] = typed
        if self._session.client.variable_types and (type_name := _type_name(value)):
            shown["type"] = type_name
        if kind == "tensor" and value.tensor.dims and 0 not in value.tensor.dims:
            length = value.tensor.dims[0]
            ref = TensorRef(stop, frame, expression, typed, length)
            shown["variablesReference"] = handles.add(thread_id, ref)
            shown["indexedVariables"] = length
        elif kind == "list" and value.list.values:
            items = ListRef(tuple(value.list.values))
            shown["variablesReference"] = handles.add(thread_id, items)
            shown["indexedVariables"] = len(value.list.values)
        return shown


def _type_name(value: pb.Value) -> str:
    kind = value.WhichOneof("kind")
    if kind == "tensor":
        return values.type_name(value.tensor.dtype, value.tensor.dims)
    return {"b": "bool", "i": "int", "f": "float", "s": "str", "list": "list"}.get(kind or "", "")
