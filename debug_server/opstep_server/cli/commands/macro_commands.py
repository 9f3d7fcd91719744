"""Commands that keep or run other commands: commands, alias, shell."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator

from opstep_server.cli.commands import breakpoint_commands
from opstep_server.cli.commands.command import Command
from opstep_server.cli.sessions.macros import MacroLines
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import DebuggerError


async def commands(session: TerminalSession, args: str) -> None:
    ids = breakpoint_commands.numbers(session, args or "$")
    session.macros.collecting = MacroLines(tuple(ids))


async def alias(session: TerminalSession, args: str) -> None:
    name, _, meant = args.partition(" ")
    meant = meant.strip().removeprefix("=").strip()
    aliases = session.macros.aliases
    if not name and not aliases:
        session.screen.line("no aliases: 'alias NAME COMMAND' makes one")
    elif not meant:
        if name and name not in aliases:
            raise DebuggerError(f"there is no alias '{name}': 'alias {name} COMMAND' makes it one")
        for each in [name] if name else sorted(aliases):
            session.screen.line(f"{each} = {aliases[each]}", "none")
    elif not name.isidentifier():
        raise DebuggerError(f"'{name}' is not a name for an alias: it takes letters and digits")
    else:
        aliases[name] = meant


async def unalias(session: TerminalSession, args: str) -> None:
    if session.macros.aliases.pop(args, None) is None:
        raise DebuggerError(f"there is no alias '{args}': 'alias' shows them")


async def shell(session: TerminalSession, args: str) -> None:
    if not args:
        raise DebuggerError("write 'shell COMMAND', such as 'shell ls'")
    kind = os.environ.get("SHELL") or "/bin/sh"
    if session.ask is not None and not session.full_screen:
        sys.stdout.flush()
        with _with_echo():
            # In another process group it would not get Ctrl-C; in ours, Ctrl-C must not pause.
            code = await _code(await asyncio.create_subprocess_exec(kind, "-c", args))
    else:
        process = await asyncio.create_subprocess_exec(
            kind, "-c", args,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert process.stdout is not None
        async for line in process.stdout:
            session.screen.line(line.decode(errors="replace").rstrip("\n"), "none")
        code = await _code(process)
    if code:
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"
        raise DebuggerError(f"'{args}' ended with {how}")


async def _code(process: asyncio.subprocess.Process) -> int:
    return await process.wait()


@contextlib.contextmanager
def _with_echo() -> Iterator[None]:
    """Shows typed characters during a shell command; our own commands hide them."""
    try:
        before = termios.tcgetattr(0)
        shown = [*before[:3], before[3] | termios.ECHO, *before[4:]]
        termios.tcsetattr(0, termios.TCSANOW, shown)
    except termios.error:
        yield
        return
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSANOW, before)


AT_STOPS = Command(
    "commands", (), "commands [NUMBER…]",
    "run commands whenever a breakpoint stops",
    "They follow, one a line, up to a line 'end'; none take them away. Without a number they are\n"
    "for the newest breakpoint. 'silent' as the first does not show the stop. One that goes\n"
    "on, as 'continue', is the last that is run.",
    commands, "breakpoint",
)  # fmt: skip

COMMANDS = (
    Command(
        "alias", (), "alias [NAME [COMMAND]]",
        "give a command another name",
        "%1 to %9 in COMMAND are the words behind NAME, and %* all of them; without these they\n"
        "follow COMMAND: 'alias m print %1.mean()', 'alias d delete'. Alone it shows all aliases.",
        alias, "command",
    ),
    Command("unalias", (), "unalias NAME", "remove an alias", "", unalias),
    Command(
        "shell", (), "shell COMMAND",
        "run a command of the shell", "The script goes on meanwhile if it runs.", shell, "file",
    ),
)  # fmt: skip
