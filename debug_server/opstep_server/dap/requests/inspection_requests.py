"""Requests that inspect a stopped thread: its stack, scopes and variables."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from opstep_server import expr, values
from opstep_server.dap.protocol import types
from opstep_server.dap.protocol.request_arguments import Arguments, RequestError
from opstep_server.dap.protocol.request_rules import Run, When, request
from opstep_server.dap.stack_view import StackView
from opstep_server.dap.stops import Child, FrameRef, ScopeRef, TensorRef
from opstep_server.dap.variables import slice_expr, taken_names
from opstep_server.debugger import DebuggerError
from opstep_server.inspection import own_name
from opstep_server.wire import debug_pb2 as pb, program_pb2

if TYPE_CHECKING:
    from opstep_server.dap.adapter_session import AdapterSession

# The most elements of a tensor in one response; clients with paging ask for far fewer. Also the
# number of a scope's variables that are read at a time.
MAX_CHILDREN = 1000
# More than any scope has.
MAX_ROWS = 1 << 31

_SCOPES = (
    # Of the op, of the op that runs the block, or the run's feeds and fetches.
    ("Inputs", pb.SCOPE_INPUTS, False),
    ("Outputs", pb.SCOPE_OUTPUTS, False),
    ("Attributes", pb.SCOPE_ATTRIBUTES, False),
    ("Block", pb.SCOPE_BLOCK, False),
    # Expensive: the client opens them only on request.
    ("Parameters", pb.SCOPE_PARAMETERS, True),
    ("Gradients", pb.SCOPE_GRADIENTS, True),
)


class InspectionRequests:
    def __init__(self, session: AdapterSession) -> None:
        self._session = session
        self._stack = StackView(session)

    @request(When.STOPPED, Run.INSPECTION, supportsDelayedStackTraceLoading=True)
    async def stackTrace_request(self, arguments: Arguments) -> types.StackTraceResponseBody:
        stop = self._session.stops.get(arguments.integer("threadId"))
        start = arguments.natural("startFrame", 0)
        levels = arguments.natural("levels", 0)
        frames = self._stack.frames(stop)
        chosen = frames[start : start + levels] if levels else frames[start:]
        return {"stackFrames": chosen, "totalFrames": len(frames)}

    @request(When.STOPPED, Run.INSPECTION)
    async def scopes_request(self, arguments: Arguments) -> types.ScopesResponseBody:
        ref = self._session.stops.frame(arguments.integer("frameId"))
        frame = ref.frame
        if ref.index is None or frame is None or frame.kind == pb.StackFrame.PYTHON:
            return {"scopes": []}
        scopes: list[types.Scope] = []
        for name, kind, expensive in _SCOPES:
            if kind == pb.SCOPE_ATTRIBUTES and frame.kind == pb.StackFrame.RUN:
                continue
            scope = ScopeRef(ref.stop, ref.index, kind)
            handle = self._session.stops.variables.add(ref.stop.thread.id, scope)
            scopes.append({"name": name, "variablesReference": handle, "expensive": expensive})
        return {"scopes": scopes}

    @request(When.STOPPED, Run.INSPECTION, supportsValueFormattingOptions=True)
    async def variables_request(self, arguments: Arguments) -> types.VariablesResponseBody:
        handle = arguments.integer("variablesReference")
        ref = self._session.stops.variable(handle)
        self._session.stops.use(handle, ref)
        self._session.stops.begin_answer(handle)
        wanted = arguments.one_of("filter", ("named", "indexed", ""), "")
        start = arguments.natural("start", 0)
        count = arguments.natural("count", 0) or MAX_ROWS
        hex = wants_hex(arguments)
        named = isinstance(ref, ScopeRef)
        if wanted and (wanted == "named") != named:
            return {"variables": []}
        if isinstance(ref, ScopeRef):
            return {"variables": await self._scope(ref, start, count, hex)}
        if isinstance(ref, TensorRef):
            children = self._sequences if ref.offsets else self._elements
            shown = await children(ref, start, count, hex)
            self._session.stops.use(handle, ref)
            return {"variables": shown}
        dtype = program_pb2.INT64 if hex else None
        end = start + min(count, MAX_CHILDREN)
        items: list[types.Variable] = [
            {"name": f"[{i}]", "value": values.describe(value, dtype), "variablesReference": 0}
            for i, value in itertools.islice(enumerate(ref.values), start, end)
        ]
        return {"variables": items + _rest(len(ref.values), end, start + count)}

    def frame(self, handle: int | None) -> tuple[FrameRef, int]:
        """The frame for an evaluation, and its place in the stack."""
        if handle is None:
            ref = FrameRef(self._session.stops.newest(), 0)
        else:
            ref = self._session.stops.frame(handle)
        if ref.index is None:
            raise RequestError("this is not a frame: choose one of those above or below it")
        return ref, ref.index

    async def variable_of(self, name: str, reference: int | None, frame: int | None) -> str:
        """The variable of one of the client's rows, or of an expression."""
        if reference:
            ref = self._session.stops.variable(reference)
            child = ref.children.get(name) if isinstance(ref, ScopeRef) else None
            if child is not None and child.variable:
                return child.variable
            raise RequestError("only whole variables can be watched")
        parsed = expr.parse(name)
        own = own_name(name)
        if not own and parsed.WhichOneof("node") not in ("name", "attribute", "index"):
            raise RequestError("only whole variables can be watched")
        debugger = self._session.debugger
        if frame is not None or self._session.stops:
            seen, index = self.frame(frame)
            try:
                return (await debugger.variable_of(seen.stop.thread.id, index, name)).variable
            except DebuggerError as error:
                raise RequestError(str(error)) from error
        name = own or name
        for program in debugger.programs:
            for op in await debugger.ops(program):
                if name in (each.variable for each in op.inputs):
                    return name
                if name in (each.name for each in op.outputs):
                    return name
        if not debugger.programs:
            return name  # Every name may become a variable.
        raise RequestError(f"no program has a variable '{name}'")

    # ---- children --------------------------------------------------------------------------------

    async def _scope(
        self, ref: ScopeRef, start: int, count: int, hex: bool
    ) -> list[types.Variable]:
        found: list[types.Variable] = []
        while len(found) < count and start < MAX_ROWS:
            # The wire limits a reply's size: ask again for the rest.
            page = await self._session.debugger.variables(
                ref.stop.thread.id,
                ref.frame,
                ref.scope,
                start + len(found),
                min(count - len(found), MAX_CHILDREN),
            )
            taken = await self._taken(ref, page)
            python = await self._in_python(ref)
            show = self._session.variables.named
            found += [show(ref, entry, hex, taken, python) for entry in page.variables]
            if not page.variables or start + len(found) >= page.total:
                break
        return found

    async def _in_python(self, ref: ScopeRef) -> dict[str, str]:
        """By variable: Python's name for it, when that means something else in expressions."""
        if ref.scope != pb.SCOPE_BLOCK:
            return {}
        hidden = await self._session.debugger.all_hidden(ref.stop.thread.id, ref.frame)
        return {each.variable or each.name: each.name for each in hidden}

    async def _taken(self, ref: ScopeRef, page: pb.Variables) -> frozenset[str]:
        """The taken names; read only when a row may have a Python name, mostly a feed."""
        if not any(each.variable and "." not in each.variable for each in page.variables):
            return frozenset()
        if ref.frame not in ref.stop.taken:
            names = await self._session.debugger.names(ref.stop.thread.id, ref.frame)
            ref.stop.taken[ref.frame] = taken_names(names)
        return ref.stop.taken[ref.frame]

    async def _elements(
        self, ref: TensorRef, start: int, count: int, hex: bool
    ) -> list[types.Variable]:
        end = start + min(count, MAX_CHILDREN, ref.length - start)
        if end <= start:
            return []
        value = await self._session.debugger.evaluate(
            ref.stop.thread.id,
            ref.frame,
            ref.expr,
            max_elements=values.SMALL,
            start=start,
            count=end - start,
        )
        dtype = value.tensor.dtype if hex else None
        elements = [
            self._session.variables.element(ref, position, child, dtype)
            for position, child in enumerate(value.tensor.children, start)
        ]
        return elements + _rest(ref.length, end, start + count)

    async def _sequences(
        self, ref: TensorRef, start: int, count: int, hex: bool
    ) -> list[types.Variable]:
        """The children of a ragged variable: its sequences."""
        end = start + min(count, MAX_CHILDREN, ref.length - start)
        if end <= start:
            return []
        thread = ref.stop.thread.id
        begins = slice_expr(expr.variable(ref.offsets), start, end + 1)
        offsets = await self._session.debugger.evaluate(
            thread, ref.frame, begins, max_elements=end + 1 - start
        )
        shown: list[types.Variable] = []
        rows = itertools.pairwise(map(int, values.elements(offsets.tensor)))
        for position, (first, last) in enumerate(rows, start):
            text = f"{ref.text}[{first}:{last}]" if ref.text else ""
            child = Child(slice_expr(ref.expr, first, last), text, "")
            value = await self._session.debugger.evaluate(
                thread, ref.frame, child.expr, max_elements=values.SMALL
            )
            shown.append(self._session.variables.sequence(ref, position, child, value, hex))
        return shown + _rest(ref.length, end, start + count)


def _rest(length: int, end: int, wanted: int) -> list[types.Variable]:
    """A row that says what is missing, for clients without paging, which ask for all at once."""
    left = min(length, wanted) - end
    if left <= 0:
        return []
    text = f"{left} more from [{end}] on: evaluate a part, such as [{end}:{end + 10}] of it"
    return [{"name": "…", "value": text, "variablesReference": 0}]


def wants_hex(arguments: Arguments) -> bool:
    return "format" in arguments and arguments.object("format").boolean("hex", False)
