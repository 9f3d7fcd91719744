"""Commands about the terminal itself: layout, history and settings."""

from __future__ import annotations

import os

from opstep_server.cli.commands.command import Command
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import DebuggerError

_SHOWN = 20
# The panes of the full screen, beside the console.
PANES = ("source", "listing", "tensors")


async def layout(session: TerminalSession, args: str) -> None:
    words = args.split()
    if words == ["off"]:
        session.full_screen = False
        return
    wrong = [word for word in words if word not in PANES]
    if wrong and words != ["all"]:
        raise DebuggerError(
            f"'{wrong[0]}' is not a pane: write 'layout', 'layout off', or some of "
            + ", ".join(PANES)
        )
    if session.ask is None:
        raise DebuggerError("the full screen needs a terminal: this session has none")
    check_terminal()
    session.panes.clear()
    session.panes.update(words if words and words != ["all"] else PANES)
    session.full_screen = True


def check_terminal() -> None:
    """Raises when the terminal can only write lines."""
    kind = os.environ.get("TERM", "")
    if kind in ("", "dumb", "unknown"):
        told = f"TERM is '{kind}'" if kind else "TERM is not set"
        raise DebuggerError(f"the full screen needs a terminal with a cursor: {told}")


async def history(session: TerminalSession, args: str) -> None:
    if args and not (args.isdecimal() and int(args) > 0):
        raise DebuggerError(f"'{args}' is not a number of commands: write 1 or more")
    # The last is this one.
    first = max(len(session.typed) - 1 - int(args or _SHOWN), 0)
    for number, text in enumerate(session.typed[first:-1], first + 1):
        session.screen.line(f"{number:>5}  {text}", "none")


def setting(session: TerminalSession, args: str) -> bool:
    """Changes a setting of the debugger, as in 'set pagination off'; False for other texts."""
    words = args.split()
    if words[:1] != ["pagination"] or "=" in args:
        return False
    if words[1:] not in (["on"], ["off"]):
        raise DebuggerError("write 'set pagination on' or 'set pagination off'")
    session.screen.paging = words[1] == "on"
    return True


COMMANDS = (
    Command(
        "layout", ("tui",), "layout [off | PANE…]",
        "the full screen: source, listing, tensors and console side by side",
        "PANE is source, listing or tensors: only these, above the console.\n"
        "'layout off' or Ctrl-X A goes back to lines; 'opstep debug --tui' begins with all panes.\n"
        "Ctrl-Up and Ctrl-Down move to a line, F9 sets a breakpoint there or removes it.\n"
        "F6 chooses the pane that PgUp and PgDn scroll.",
        layout, "layout",
    ),
    Command(
        "history", (), "history [COUNT]",
        "show the commands that were typed, up to 20",
        "On a terminal they are kept from session to session: Ctrl-R searches in them.", history,
    ),
)  # fmt: skip
