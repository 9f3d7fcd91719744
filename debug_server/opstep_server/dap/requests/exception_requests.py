"""The protocol's exception requests: faults to stop at, and details of a fault."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from opstep_server import values
from opstep_server.dap.protocol import types
from opstep_server.dap.protocol.request_arguments import Arguments, RequestError
from opstep_server.dap.protocol.request_rules import Run, When, request
from opstep_server.dap.stack_view import creation_stack, op_title
from opstep_server.dap.stops import Stop
from opstep_server.dap.variables import typed_name
from opstep_server.debugger import DebuggerError, FaultSpec
from opstep_server.wire import debug_pb2 as pb

if TYPE_CHECKING:
    from opstep_server.dap.adapter_session import AdapterSession

_CONDITION = "Stop only when this holds, for example: step > 100 and out.size > 1"
_FILTERS: list[types.ExceptionBreakpointsFilter] = [
    {
        "filter": "error",
        "label": "Op Errors",
        "description": "Stop at an op that fails, before the Python exception",
        "default": True,
        "supportsCondition": True,
        "conditionDescription": "Stop only when this holds, for example: step > 100",
    },
    {
        "filter": "nan",
        "label": "NaN",
        "description": "Stop after an op that makes a NaN out of inputs that have none",
        "default": False,
        "supportsCondition": True,
        "conditionDescription": _CONDITION,
    },
    {
        "filter": "inf",
        "label": "Inf",
        "description": "Stop after an op that makes an Inf out of inputs that have none",
        "default": False,
        "supportsCondition": True,
        "conditionDescription": _CONDITION,
    },
    {
        "filter": "overflow",
        "label": "Overflow",
        "description": "Stop after an op that makes an element beyond a limit, by "
        "default 65504, the largest float16",
        "default": False,
        "supportsCondition": True,
        "conditionDescription": "The limit, for example 1e4; or what must hold",
    },
]
_IDS = {
    pb.STOP_NAN: "nan",
    pb.STOP_INF: "inf",
    pb.STOP_OVERFLOW: "overflow",
    pb.STOP_ERROR: "error",
}
# The debugger's own breakpoints count from 1.
_FIRST_ID = 1 << 30


class ExceptionRequests:
    def __init__(self, session: AdapterSession) -> None:
        self._session = session
        self._specs: list[FaultSpec] = []
        self._off = False
        self._ids = itertools.count(_FIRST_ID)
        self._told: list[types.Breakpoint] = []

    async def configure(self, *, off: bool) -> None:
        if off != self._off:
            self._off = off
            await self._session.debugger.set_faults([] if off else self._specs)

    @request(exceptionBreakpointFilters=_FILTERS, supportsExceptionFilterOptions=True)
    async def setExceptionBreakpoints_request(
        self, arguments: Arguments
    ) -> types.SetExceptionBreakpointsResponseBody:
        specs = [_spec(name, None) for name in arguments.strings("filters")]
        specs += [
            _spec(option.string("filterId"), option.optional_string("condition"))
            for option in arguments.objects("filterOptions")
        ]
        self._specs = specs
        if self._off:
            problems = ["this run is not debugged"] * len(specs)
        else:
            problems = await self._session.debugger.set_faults(specs)
        self._told = [_tell(next(self._ids), problem) for problem in problems]
        return {"breakpoints": self._told}

    def changed(self, problems: list[str]) -> None:
        """Reports filters that cannot be used; for a condition this shows only when ops run."""
        for position, (before, problem) in enumerate(zip(self._told, problems, strict=False)):
            now = _tell(before["id"], problem)
            if now != before:
                self._told[position] = now
                self._session.outbox.event("breakpoint", {"reason": "changed", "breakpoint": now})

    @request(When.STOPPED, Run.INSPECTION, supportsExceptionInfoRequest=True)
    async def exceptionInfo_request(self, arguments: Arguments) -> types.ExceptionInfoResponseBody:
        stop = self._session.stops.get(arguments.integer("threadId"))
        exception = _IDS.get(stop.stopped.reason)
        if exception is None:
            raise RequestError(
                f"thread {stop.thread.id} is not stopped by NaN, Inf, overflow or an error"
            )
        details: types.ExceptionDetails = {
            "message": "\n".join([stop.stopped.message, *await self._report(stop)]),
            "typeName": exception,
            "fullTypeName": f"opstep.{exception}",
        }
        if stop.stopped.HasField("fault"):
            details["evaluateName"] = typed_name(stop.stopped.fault.variable.name)
        if stop.stopped.frames and stop.stopped.frames[0].op.stack:
            details["stackTrace"] = creation_stack(stop.stopped.frames[0].op)
        return {
            "exceptionId": exception,
            "description": stop.stopped.message,
            "breakMode": "always",
            "details": details,
        }

    async def _report(self, stop: Stop) -> list[str]:
        """The op, the faulty output, and the op's inputs."""
        if not stop.stopped.frames:
            return []
        lines = [f"op: {op_title(stop.stopped.frames[0].op)}"]
        fault = stop.stopped.fault
        if stop.stopped.HasField("fault") and fault.variable.name:
            kind = _IDS.get(stop.stopped.reason, "")
            variable = fault.variable
            shown = values.type_name(variable.dtype, variable.dims)
            index = ", ".join(map(str, fault.index))
            lines.append(f"variable: {variable.name} {shown}")
            lines.append(f"{kind}: {fault.count}, first at [{index}]")
        try:
            page = await self._session.debugger.variables(stop.thread.id, 0, pb.SCOPE_INPUTS)
        except DebuggerError:
            return lines  # It has gone on.
        for entry in page.variables:
            name = f"{entry.name} ({entry.variable})" if entry.variable else entry.name
            lines.append(f"input {name}: {values.describe(entry.value)}")
        return lines


def _spec(name: str, condition: str | None) -> FaultSpec:
    condition = (condition or "").strip() or None
    if name == "overflow" and condition is not None:
        limit = _number(condition)
        return FaultSpec("overflow", condition=condition if limit is None else None, limit=limit)
    for kind in ("nan", "inf", "overflow", "error"):
        if kind == name:
            return FaultSpec(kind, condition=condition)
    known = ", ".join(each["filter"] for each in _FILTERS)
    raise RequestError(f"there is no exception filter '{name}': use {known}")


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if number >= 0 else None


def _tell(id: int, problem: str) -> types.Breakpoint:
    told: types.Breakpoint = {"id": id, "verified": not problem}
    if problem:
        told["message"] = problem
    return told
