"""New lines to run to on which no op was made: none of them is waited for in silence.

Run to Cursor has no request: an editor adds a plain breakpoint on the line and continues, as a
person may do. So both are treated alike. A line without code is refused, once for as long as it has
its breakpoint. On any other line an op may still be made, also when the program's other ops are
known: the run goes on, and if it ends without a stop there, that is reported.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from opstep_server import code_lines
from opstep_server.dap.client_breakpoints import Wanted
from opstep_server.dap.protocol import types
from opstep_server.dap.protocol.request_arguments import RequestError
from opstep_server.debugger import BreakpointSpec, BreakpointState, SourceWhere

if TYPE_CHECKING:
    from opstep_server.dap.adapter_session import AdapterSession

_Place = tuple[str, int]


class CursorLines:
    def __init__(self, session: AdapterSession) -> None:
        self._session = session
        # By file, the lines that have a breakpoint.
        self._lines: dict[str, set[int]] = {}
        # Set while a thread was stopped, and not continued to yet; the report on each.
        self._new: dict[_Place, types.Breakpoint] = {}
        # No op was made on them when the run went on; whether one was made since.
        self._awaited: dict[_Place, bool] = {}

    def set(self, path: str, wanted: Sequence[Wanted], told: Sequence[types.Breakpoint]) -> None:
        """The breakpoints of a file were replaced."""
        before = self._lines.get(path, set())
        now: set[int] = set()
        plain: dict[_Place, types.Breakpoint] = {}
        for spec, answer in zip(wanted, told, strict=True):
            if isinstance(spec, BreakpointSpec) and isinstance(spec.where, SourceWhere):
                now.add(spec.where.line)
                if not (spec.condition or spec.hit_condition or spec.log_message):
                    plain[path, spec.where.line] = answer
        self._lines[path] = now
        for gone in before - now:
            self._new.pop((path, gone), None)
            self._awaited.pop((path, gone), None)
        added = [(path, line) for line in now - before]
        # Several at once are not a line to run to.
        if self._session.stops and len(added) == 1 and added[0] in plain:
            self._new[added[0]] = plain[added[0]]

    def changed(self, state: BreakpointState) -> None:
        where = state.spec.where
        if state.verified and isinstance(where, SourceWhere):
            place = where.file, where.line
            self._new.pop(place, None)
            if place in self._awaited:
                self._awaited[place] = True

    def check_continue(self) -> None:
        """Raises for a new line without code; reports one on which no op was made yet."""
        new, self._new = self._new, {}
        missing = {place: told for place, told in new.items() if not told["verified"]}
        refused = [place for place in missing if not _has_code(*place)]
        if refused:
            self._new = {place: told for place, told in missing.items() if place not in refused}
            raise RequestError(
                f"cannot run to {_name(refused[-1])}: that line has no code"
                f"{_nearest(missing[refused[-1]])}; continue again to run on"
            )
        for place, told in missing.items():
            self._awaited[place] = False
            where = f"{_name(place)} yet{_nearest(told)}"
            self._say(f"no op was made on {where}: the run goes on until one is")

    def stopped(self, breakpoints: Sequence[int]) -> None:
        """A thread has stopped at these breakpoints."""
        for id in breakpoints if self._awaited else ():
            told = self._session.breakpoints.told(id)
            if told and "source" in told:
                line = self._session.client.our_line(told["line"])
                self._awaited.pop((told["source"].get("path", ""), line), None)

    def ended(self) -> None:
        """No run can reach a line any more."""
        awaited, self._awaited = self._awaited, {}
        for place, made in awaited.items():
            why = "its ops did not run again" if made else "no op was made on that line"
            self._say(f"nothing stopped at {_name(place)}: {why}")

    def _say(self, text: str) -> None:
        self._session.outbox.output("console", f"{text}\n")


def _has_code(path: str, line: int) -> bool:
    lines = code_lines.lines_with_code(path)
    return lines is None or line in lines


def _name(place: _Place) -> str:
    return f"{os.path.basename(place[0])}:{place[1]}"


def _nearest(told: types.Breakpoint) -> str:
    """The end of the executor's sentence: " (nearest lines with ops: 20, 22)"."""
    message = told.get("message", "")
    return f" {message[message.index('(') :]}" if "(" in message else ""
