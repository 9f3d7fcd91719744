"""Displays: expressions whose values are shown at each stop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opstep_server.cli.output.array_text import Format
from opstep_server.debugger import DebuggerError

if TYPE_CHECKING:
    from opstep_server.cli.sessions.terminal_session import TerminalSession


@dataclass
class Display:
    text: str
    form: Format = ""
    number: int = 0
    # The last error, which is shown in full only once.
    told: str = ""


@dataclass
class Displays:
    all: dict[int, Display] = field(default_factory=dict)
    _last: int = 0

    def add(self, new: Display) -> Display:
        self._last += 1
        new.number = self._last
        self.all[new.number] = new
        return new

    async def show(self, session: TerminalSession, only: Display | None = None) -> None:
        for line in await self.lines(session, only):
            session.screen.line(line)

    async def lines(
        self, session: TerminalSession, only: Display | None = None, again: bool = False
    ) -> list[str]:
        """The lines of all displays; with `again`, errors are repeated in full."""
        # Imported here: printing needs the session, which has the displays.
        from opstep_server.cli.commands.print_commands import shown

        lines: list[str] = []
        for display in [only] if only is not None else list(self.all.values()):
            try:
                first, *others = await shown(session, display.text, display.form)
            except DebuggerError as error:
                why = f"not here: {error}" if again or display.told != str(error) else "not here"
                display.told = str(error)
                lines.append(f"{display.number}: {display.text} = ({why})")
                continue
            display.told = ""
            lines += [f"{display.number}: {first}", *others, *session.take_notes()]
        return lines
