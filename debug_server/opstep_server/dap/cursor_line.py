"""Run to Cursor on a line that makes no op: refused with a sentence, not run to the end.

The protocol has no request for it: an editor adds a plain breakpoint on the line, and continues. A
person may do the same by hand, but causes other requests in between. A `continue` that directly
follows one new line on which no op was made is refused, once for as long as the line has its
breakpoint.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from opstep_server.dap.client_breakpoints import Wanted
from opstep_server.dap.protocol import types
from opstep_server.dap.protocol.request_arguments import RequestError
from opstep_server.debugger import BreakpointSpec, SourceWhere

# Editors and their views ask for these by themselves, also while they run to the cursor: VS Code
# waits for the breakpoint to be verified, two seconds, and the mouse may rest on a name.
_BY_ITSELF = frozenset(
    {"setBreakpoints", "continue", "breakpointLocations", "threads", "source", "loadedSources"}
    | {"modules", "cancel"}
)


class CursorLine:
    def __init__(self) -> None:
        # By file, the lines that have a breakpoint.
        self._lines: dict[str, set[int]] = {}
        # The new line, and why it is no target of Run to Cursor.
        self._place: tuple[str, int] | None = None
        self._refusal = ""

    def set(
        self,
        path: str,
        wanted: Sequence[Wanted],
        told: Sequence[types.Breakpoint],
        stopped: bool,
    ) -> None:
        """The breakpoints of a file were replaced."""
        before = self._lines.get(path, set())
        now: dict[int, types.Breakpoint] = {}
        plain: set[int] = set()
        for spec, answer in zip(wanted, told, strict=True):
            if isinstance(spec, BreakpointSpec) and isinstance(spec.where, SourceWhere):
                now[spec.where.line] = answer
                if not (spec.condition or spec.hit_condition or spec.log_message):
                    plain.add(spec.where.line)
        self._lines[path] = set(now)
        added = now.keys() - before
        gone = self._place and self._place[0] == path and self._place[1] not in now
        if added or gone:
            self._forget()
        if not stopped or len(added) != 1 or not added <= plain:
            return
        (line,) = added
        message = now[line].get("message", "")
        # "no op was made on train.py:9 yet": an op may still come.
        if (
            not now[line]["verified"]
            and message.startswith("no op was made")
            and " yet" not in message
        ):
            place = f"{os.path.basename(path)}:{line}"
            nearest = f" {message[message.index('(') :]}" if "(" in message else ""
            self._place = path, line
            self._refusal = (
                f"cannot run to {place}: that line makes no op{nearest}; continue again to run on"
            )

    def saw(self, command: str, arguments: object) -> None:
        """Takes a request: one that a person caused ends the wait for `continue`."""
        hover = isinstance(arguments, Mapping) and arguments.get("context") == "hover"
        view = command.startswith("opstep") and command != "opstepResume"
        if command not in _BY_ITSELF and not hover and not view:
            self._forget()

    def check_continue(self) -> None:
        """Raises when the editor wants to run to a line without ops."""
        refusal = self._refusal
        self._forget()
        if refusal:
            raise RequestError(refusal)

    def _forget(self) -> None:
        self._place = None
        self._refusal = ""
