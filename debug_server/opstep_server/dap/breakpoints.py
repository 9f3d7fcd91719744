"""Breakpoints in Python files, in listings and on ops; exception filters."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from opstep_server.dap.arguments import Arguments, RequestError
from opstep_server.dap.framing import Json
from opstep_server.dap.rules import request
from opstep_server.debugger import (
    BreakpointSpec,
    BreakpointState,
    FaultSpec,
    ListingWhere,
    PatternWhere,
    SourceWhere,
)

if TYPE_CHECKING:
    from opstep_server.dap.session import Session

_EXCEPTIONS: list[Json] = [
    {
        "filter": "nan",
        "label": "NaN",
        "description": "Stop after an op that makes a NaN out of inputs that have none",
        "default": False,
    },
    {
        "filter": "inf",
        "label": "Inf",
        "description": "Stop after an op that makes an Inf out of inputs that have none",
        "default": False,
    },
    {
        "filter": "error",
        "label": "Op Errors",
        "description": "Stop at an op that fails, before the Python exception",
        "default": True,
    },
]
_KINDS: tuple[Literal["nan", "inf", "error"], ...] = ("nan", "inf", "error")
_FILTERS = tuple(str(entry["filter"]) for entry in _EXCEPTIONS)

# One asked-for breakpoint: what to set, or why it cannot be.
Wanted = BreakpointSpec | str


class Breakpoints:
    """Remembers what the client asked for, because how to set it is said later, by `launch`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._wanted: dict[str, list[Wanted]] = {}
        self._gradients = False
        self._off = False
        # What the client was told last of each, so that it hears of changes only.
        self._told: dict[int, Json] = {}
        # By the debugger's id, what the client calls a breakpoint that had to be set anew.
        self._client_ids: dict[int, int] = {}

    async def configure(self, *, gradients: bool, off: bool) -> None:
        """Takes over what `launch` says of all breakpoints."""
        if (gradients, off) == (self._gradients, self._off):
            return
        self._gradients, self._off = gradients, off
        for owner, wanted in self._wanted.items():
            specs = [entry for entry in wanted if isinstance(entry, BreakpointSpec)]
            before = await self._session.debugger.replace_breakpoints(owner, specs)
            for spec in specs:
                spec.gradients = gradients and isinstance(spec.where, SourceWhere)
            after = await self._session.debugger.replace_breakpoints(owner, [] if off else specs)
            for old, new in zip(before, after, strict=False):
                self._client_ids[new.id] = self.client_id(old.id)
                self._tell(new)
        if off:
            await self._session.debugger.set_exceptions([])

    def client_id(self, id: int) -> int:
        return self._client_ids.get(id, id)

    @request(supportsConditionalBreakpoints=True)
    async def setBreakpoints_request(self, arguments: Arguments) -> Json:
        source = arguments.object("source")
        wanted = arguments.objects("breakpoints")
        program_name = self._session.sources.program_of(source)
        if program_name is not None:
            owner = f"listing:{program_name}"
        else:
            path = os.path.normpath(source.string("path"))
            owner = f"source:{path}"
        entries: list[Wanted] = []
        for entry in wanted:
            line = self._session.client.our_line(entry.integer("line"))
            if program_name is not None:
                spec = BreakpointSpec(ListingWhere(program_name, line))
            else:
                spec = BreakpointSpec(SourceWhere(path, line), gradients=self._gradients)
            entries.append(_with_condition(spec, entry))
        lines = [entry.integer("line") for entry in wanted]
        told = await self._replace(owner, entries)
        return {"breakpoints": [{**b, "line": line} for b, line in zip(told, lines, strict=True)]}

    @request(supportsFunctionBreakpoints=True)
    async def setFunctionBreakpoints_request(self, arguments: Arguments) -> Json:
        entries: list[Wanted] = []
        for entry in arguments.objects("breakpoints"):
            pattern = entry.string("name").strip()
            if pattern:
                entries.append(_with_condition(BreakpointSpec(PatternWhere(pattern)), entry))
            else:
                entries.append("an op type or a pattern over op names is needed")
        return {"breakpoints": await self._replace("function", entries)}

    @request(exceptionBreakpointFilters=_EXCEPTIONS, supportsExceptionInfoRequest=True)
    async def setExceptionBreakpoints_request(self, arguments: Arguments) -> Json:
        asked = arguments.strings("filters")
        asked += [option.string("filterId") for option in arguments.objects("filterOptions")]
        unknown = [name for name in asked if name not in _FILTERS]
        if unknown:
            raise RequestError(
                f"there is no exception filter '{unknown[0]}': use {', '.join(_FILTERS)}"
            )
        chosen = [] if self._off else [FaultSpec(kind) for kind in _KINDS if kind in asked]
        await self._session.debugger.set_exceptions(chosen)
        return {"breakpoints": [{"verified": True} for _ in asked]}

    # ---- what became of them ---------------------------------------------------------------------

    async def _replace(self, owner: str, wanted: list[Wanted]) -> list[Json]:
        self._wanted[owner] = wanted
        specs = [entry for entry in wanted if isinstance(entry, BreakpointSpec)]
        if self._off:
            await self._session.debugger.replace_breakpoints(owner, [])
            return [{"verified": False, "message": "this run is not debugged"} for _ in wanted]
        states = iter(await self._session.debugger.replace_breakpoints(owner, specs))
        answer: list[Json] = []
        for entry in wanted:
            if isinstance(entry, BreakpointSpec):
                answer.append(self._tell(next(states)))
            else:
                answer.append({"verified": False, "message": entry})
        return answer

    def changed(self, state: BreakpointState, removed: bool) -> None:
        before = self._told.get(state.id)
        if before is None:
            return  # Not one of the client's.
        if removed:
            del self._told[state.id]
            self._session.outbox.event("breakpoint", {"reason": "removed", "breakpoint": before})
            return
        now = self._tell(state)
        if now != before:
            self._session.outbox.event("breakpoint", {"reason": "changed", "breakpoint": now})

    def _tell(self, state: BreakpointState) -> Json:
        told: Json = {"id": self.client_id(state.id), "verified": state.verified}
        if state.message and not state.verified:
            told["message"] = state.message
        where = state.spec.where
        if isinstance(where, SourceWhere):
            told["source"] = {"name": os.path.basename(where.file), "path": where.file}
            told["line"] = self._session.client.line(where.line)
        elif isinstance(where, ListingWhere):
            told["source"] = self._session.sources.listing_source(where.program_name)
            told["line"] = self._session.client.line(where.line)
        self._told[state.id] = told
        return told


def _with_condition(spec: BreakpointSpec, entry: Arguments) -> Wanted:
    if entry.optional_string("hitCondition"):
        return "hit counts are not supported yet: use a condition such as step == 5"
    if entry.optional_string("logMessage"):
        return "log messages are not supported yet"
    condition = (entry.optional_string("condition") or "").strip()
    if condition:
        spec.condition = condition
    return spec
