"""Notices about breakpoints and faults, each given once."""

from __future__ import annotations

import re
from collections.abc import Sequence

from opstep_server.cli.output import descriptions
from opstep_server.cli.output.screen import Screen
from opstep_server.cli.sessions.fault_settings import FaultSettings
from opstep_server.cli.sessions.known_names import KnownNames
from opstep_server.debugger import BreakpointState, Debugger, FaultSpec
from opstep_server.wire import debug_pb2 as pb


class BreakpointNotices:
    def __init__(
        self, debugger: Debugger, screen: Screen, names: KnownNames, faults: FaultSettings
    ) -> None:
        self._debugger = debugger
        self._screen = screen
        self._names = names
        self._faults = faults
        # Breakpoints that have been bound.
        self._bound: set[int] = set()
        # The last message of each breakpoint and of each filter.
        self._messages: dict[int, str] = {}
        self._problems: dict[FaultSpec, str] = {}

    def show(self, state: BreakpointState) -> None:
        self._messages[state.id] = state.message
        self._screen.line(descriptions.breakpoint_line(state, self.hint(state)))

    def hint(self, state: BreakpointState) -> str:
        names = self._names
        return descriptions.nearest(state, names.ops | names.types, names.variables)

    def changed(self, state: BreakpointState) -> None:
        if state.verified:
            self._bound.add(state.id)

    def at_stop(self, stopped: pb.Stopped) -> None:
        """Gives the new notices at a stop."""
        failed = stopped.message.startswith("the condition of breakpoint")
        for state in self._debugger.breakpoints:
            if not state.verified or not state.message or failed:
                continue  # The failed condition was just reported.
            if self._is_new(state):
                place = descriptions.where(state.spec)
                self._screen.line(f"breakpoint {state.id} at {place}: {state.message}", "yellow")
        for state in self._unbound():
            # In imperative mode more ops may always come.
            if self._is_new(state) and not state.message.endswith(" yet"):
                why = descriptions.why_not(state, self.hint(state))
                self._say_unbound(state, "is bound to no op", why)

    def at_end(self) -> None:
        for state in self._unbound():
            why = re.sub(r" yet(?=$|;)", "", descriptions.why_not(state, self.hint(state)))
            self._say_unbound(state, "was never bound", why)

    def problems(self, problems: Sequence[str]) -> None:
        """A sentence for each fault filter that cannot be used, "" for the others."""
        told = dict(zip(self._faults.specs(), problems, strict=False))
        for spec, problem in told.items():
            if problem and problem != self._problems.get(spec):
                what = f"{spec.kind} in {spec.ops}" if spec.ops else spec.kind
                self._screen.line(f"catching {what}: {problem}", "yellow")
        self._problems = told

    def _unbound(self) -> list[BreakpointState]:
        return [
            state
            for state in self._debugger.breakpoints
            if state.spec.enabled and not state.verified and state.id not in self._bound
        ]

    def _is_new(self, state: BreakpointState) -> bool:
        before, self._messages[state.id] = self._messages.get(state.id), state.message
        return before != state.message

    def _say_unbound(self, state: BreakpointState, bound: str, why: str) -> None:
        place = descriptions.where(state.spec)
        self._screen.line(f"breakpoint {state.id} at {place} {bound}: {why}", "yellow")
