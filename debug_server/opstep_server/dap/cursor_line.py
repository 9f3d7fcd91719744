"""Run to Cursor on a line that makes no op: refused with a sentence, not run to the end.

The protocol has no request for it: an editor adds a breakpoint on the line and continues at once.
So a `continue` right after one line was added, on which no op was made, is refused once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from opstep_server.dap import types
from opstep_server.dap.arguments import RequestError
from opstep_server.dap.breakpoints import Wanted
from opstep_server.debugger import BreakpointSpec, SourceWhere

# VS Code waits 2 s for the breakpoint to be verified.
_SECONDS = 4.0


class CursorLine:
    def __init__(self) -> None:
        # By file, the plain lines that have a breakpoint.
        self._lines: dict[str, set[int]] = {}
        self._refusal = ""
        self._until = 0.0

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
        for spec, answer in zip(wanted, told, strict=True):
            if isinstance(spec, BreakpointSpec) and isinstance(spec.where, SourceWhere):
                now[spec.where.line] = answer
        self._lines[path] = set(now)
        self._refusal = ""
        added = now.keys() - before
        if not stopped or len(added) != 1:
            return
        (line,) = added
        message = now[line].get("message", "")
        # "no op was made on train.py:9 yet": one may still come.
        if (
            not now[line]["verified"]
            and message.startswith("no op was made")
            and " yet" not in message
        ):
            place = f"{os.path.basename(path)}:{line}"
            nearest = f" {message[message.index('(') :]}" if "(" in message else ""
            self._refusal = (
                f"cannot run to {place}: that line makes no op{nearest}; continue again to run on"
            )
            self._until = asyncio.get_running_loop().time() + _SECONDS

    def check_continue(self) -> None:
        """Raises when the run was to stop at such a line."""
        refusal, self._refusal = self._refusal, ""
        if refusal and asyncio.get_running_loop().time() < self._until:
            raise RequestError(refusal)
