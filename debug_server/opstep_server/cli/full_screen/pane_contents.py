"""The contents of the panes: the session's place and values, fetched at each stop."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace

from opstep_server import values
from opstep_server.cli.commands import focus
from opstep_server.cli.full_screen.panes import CodePane, Console, TextPane
from opstep_server.cli.output import descriptions, margin, styled_text
from opstep_server.cli.output.styled_text import FAINT, NAME, Line
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import (
    BreakpointState,
    DebuggerError,
    ListingWhere,
    ProgramRef,
    SourceWhere,
)
from opstep_server.wire import debug_pb2 as pb

# The most variables of one scope.
_SHOWN = 100
_SCOPES = (("inputs", pb.SCOPE_INPUTS), ("outputs", pb.SCOPE_OUTPUTS))


class PaneContents:
    def __init__(self, session: TerminalSession, changed: Callable[[], None]) -> None:
        """`changed` is called when there is something new to draw."""
        self._session = session
        self.source = CodePane("no source to show", self._stopped)
        self.listing = CodePane("no program yet", self._stopped)
        self.tensors = TextPane()
        self.console = Console(changed)
        self.file = session.script
        self.program = ""
        # The program of the listing on display.
        self._listed: ProgramRef | None = None
        self._listing: list[Line] = []
        self._ops: list[pb.OpInfo] = []
        # The state behind the present marks.
        self._marked: object = None

    async def refresh(self) -> None:
        """Updates the panes after a stop or a command; leaves out what cannot be fetched."""
        try:
            file, line = self._session.line_in_view if self._stopped() else ("", 0)
            self.file = file or self.file
            self.source.show(styled_text.python(self.file), line if file else 0)
            await self._refresh_listing()
            lines = await self._tensors()
        except DebuggerError as error:
            lines = [[(FAINT, str(error))]]  # It went on, or ended.
        self.tensors.show(lines)
        self._mark()

    def _mark(self) -> None:
        """Marks the breakpoints, only when they have changed: a listing may be long."""
        states = self._session.debugger.breakpoints
        known = [(s.id, s.verified, replace(s.spec)) for s in states], self.file, self._listed
        if known == self._marked:
            return
        self._marked = known
        self.source.marks = margin.of_source(states, self.file)
        if self._listed is not None:
            self.listing.marks = margin.of_listing(states, self._listed, self._ops)

    def at(self, pane: CodePane) -> tuple[str, BreakpointState | None]:
        """The place under the pane's cursor as 'break' takes it, and the breakpoint there."""
        where: ListingWhere | SourceWhere
        if pane is self.listing:
            where = ListingWhere(self.program, pane.cursor)
            text = f"listing:{self.program}:{pane.cursor}"
        else:
            where = SourceWhere(os.path.realpath(self.file), pane.cursor)
            text = f"{descriptions.path(self.file)}:{pane.cursor}"
        states = self._session.debugger.breakpoints
        return text, next((state for state in states if state.spec.where == where), None)

    # ---- inside ----------------------------------------------------------------------------------

    def _stopped(self) -> bool:
        return self._session.stopped is not None

    async def _refresh_listing(self) -> None:
        session = self._session
        if not session.debugger.programs:
            return
        program = session.program()
        shown = self._listed
        if shown is None or shown.executor is not program.executor or shown.event != program.event:
            lines = await session.debugger.listing(program)
            self._ops = await session.debugger.ops(program)
            self._listing = [styled_text.listing(line) for line in lines]
            self._listed = program
            self.program = program.event.name
        current = focus.listing_line(session) if self._stopped() else 0
        self.listing.show(self._listing, current)

    async def _tensors(self) -> list[Line]:
        session = self._session
        if session.stopped is None:
            return [[(FAINT, "the script runs" if session.running else "nothing runs")]]
        lines: list[Line] = []
        for title, scope in _SCOPES:
            page = await focus.variables(session, scope, count=_SHOWN)
            lines.append([("bold", title)])
            lines += _table(page)
        if session.displays.all:
            lines.append([("bold", "displayed")])
            texts = await session.displays.lines(session, again=True)
            lines += [styled_text.words(f"  {text}") for text in texts]
        return lines


def _table(page: pb.Variables) -> Iterator[Line]:
    rows: list[tuple[str, str]] = []
    for named in page.variables:
        name = named.name
        if named.variable and named.variable != name:
            name += f" = {named.variable}"
        rows.append((name, values.describe(named.value)))
    width = max((len(name) for name, _ in rows), default=0)
    for name, text in rows:
        yield [(NAME, f"  {name:<{width}}  "), *styled_text.words(text)]
    if page.total > len(rows):
        yield [(FAINT, f"  and {page.total - len(rows)} more")]
    if not rows:
        yield [(FAINT, "  none")]
