"""The client's breakpoints: those it asked for, and the last report on each."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from opstep_server.dap.protocol import types
from opstep_server.debugger import (
    BreakpointSpec,
    BreakpointState,
    DataWhere,
    ListingWhere,
    OpWhere,
    PatternWhere,
    SourceWhere,
)

if TYPE_CHECKING:
    from opstep_server.dap.adapter_session import AdapterSession

# A breakpoint that the client asked for, or why it cannot be set.
Wanted = BreakpointSpec | str

# The protocol's reasons of a stop.
_REASONS = {
    SourceWhere: "breakpoint",
    ListingWhere: "breakpoint",
    PatternWhere: "function breakpoint",
    DataWhere: "data breakpoint",
    OpWhere: "instruction breakpoint",
}


class ClientBreakpoints:
    """Remembers the client's breakpoints, because `launch` says only later how to set them."""

    def __init__(self, session: AdapterSession) -> None:
        self._session = session
        self._wanted: dict[str, list[Wanted]] = {}
        self._gradients = False
        self._off = False
        # The last report on each, so that the client gets changes only.
        self._told: dict[int, types.Breakpoint] = {}
        self._reasons: dict[int, str] = {}
        # By the debugger's id, the client's id of a breakpoint that was set again.
        self._client_ids: dict[int, int] = {}

    async def configure(self, *, gradients: bool, off: bool) -> None:
        """Applies the options of `launch` to all breakpoints."""
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

    @property
    def gradients(self) -> bool:
        return self._gradients

    async def replace(self, owner: str, wanted: list[Wanted]) -> list[types.Breakpoint]:
        """Replaces all breakpoints of the owner; returns the report on each for the client."""
        self._wanted[owner] = wanted
        specs = [entry for entry in wanted if isinstance(entry, BreakpointSpec)]
        if self._off:
            await self._session.debugger.replace_breakpoints(owner, [])
            return [{"verified": False, "message": "this run is not debugged"} for _ in wanted]
        states = iter(await self._session.debugger.replace_breakpoints(owner, specs))
        answer: list[types.Breakpoint] = []
        for entry in wanted:
            if isinstance(entry, BreakpointSpec):
                answer.append(self._tell(next(states)))
            else:
                answer.append({"verified": False, "message": entry})
        return answer

    # ---- reports ---------------------------------------------------------------------------------

    def client_id(self, id: int) -> int:
        return self._client_ids.get(id, id)

    def reason(self, ids: Iterable[int]) -> str:
        """The reason of a stop at these breakpoints; one on a source line comes first."""
        reasons = [self._reasons.get(id, "breakpoint") for id in ids]
        return "breakpoint" if not reasons or "breakpoint" in reasons else reasons[0]

    def told(self, id: int) -> types.Breakpoint | None:
        return self._told.get(id)

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

    def _tell(self, state: BreakpointState) -> types.Breakpoint:
        told: types.Breakpoint = {"id": self.client_id(state.id), "verified": state.verified}
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
        self._reasons[state.id] = _REASONS[type(where)]
        return told
