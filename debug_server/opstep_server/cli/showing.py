"""Handlers of the commands about the debugger's own face: layout, history."""

from __future__ import annotations

from opstep_server.cli.command import Command
from opstep_server.cli.session import Session
from opstep_server.debugger import DebuggerError

_SHOWN = 20


async def history(session: Session, args: str) -> None:
    if args and not (args.isdecimal() and int(args) > 0):
        raise DebuggerError(f"'{args}' is no number of commands: write 1 or more")
    # The last is this one.
    first = max(len(session.typed) - 1 - int(args or _SHOWN), 0)
    for number, text in enumerate(session.typed[first:-1], first + 1):
        session.screen.line(f"{number:>5}  {text}", "none")


COMMANDS = (
    Command(
        "history", (), "history [COUNT]",
        "show the commands that were typed, up to 20",
        "On a terminal they are kept from session to session: Ctrl-R searches in them.", history,
    ),
)  # fmt: skip
