"""The client's breakpoints: what it asked for, and what it was told of each."""

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

# One asked-for breakpoint: what to set, or why it cannot be.
Wanted = BreakpointSpec | str

# The protocol's words for what stopped a thread.
_REASONS = {
    SourceWhere: "breakpoint",
    ListingWhere: "breakpoint",
    PatternWhere: "function breakpoint",
    DataWhere: "data breakpoint",
    OpWhere: "instruction breakpoint",
}


class ClientBreakpoints:
    """Remembers what the client asked for, because how to set it is said later, by `launch`."""

    def __init__(self, session: AdapterSession) -> None:
        self._session = session
        self._wanted: dict[str, list[Wanted]] = {}
        self._gradients = False
        self._off = False
        # What the client was told last of each, so that it hears of changes only.
        self._told: dict[int, types.Breakpoint] = {}
        self._reasons: dict[int, str] = {}
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

    @property
    def gradients(self) -> bool:
        return self._gradients

    async def replace(self, owner: str, wanted: list[Wanted]) -> list[types.Breakpoint]:
        """Makes these all that the owner has; what the client is told of each."""
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

    # ---- what became of them ---------------------------------------------------------------------

    def client_id(self, id: int) -> int:
        return self._client_ids.get(id, id)

    def reason(self, ids: Iterable[int]) -> str:
        """Why a thread stopped that hit these: a line of the user's comes before all others."""
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
