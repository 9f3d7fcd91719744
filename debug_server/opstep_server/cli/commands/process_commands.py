"""Commands that start, leave or end the script: run, start, detach, kill, quit."""

from __future__ import annotations

import shlex
import signal
from dataclasses import replace

from opstep_server.cli.commands.command import Command
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import BreakpointSpec, DebuggerError, PatternWhere

_WAYS = ("detach", "terminate")


async def run(session: TerminalSession, args: str) -> None:
    await _run(session, args)


async def start(session: TerminalSession, args: str) -> None:
    await _run(session, args, BreakpointSpec(PatternWhere("*"), temporary=True))


async def _run(session: TerminalSession, args: str, first: BreakpointSpec | None = None) -> None:
    session.check_can_start()
    given = _arguments(session, args)
    if session.running:
        if not await session.sure(f"the {session.what} is running: end it and start it again?"):
            return
        await session.end()
    if given:
        session.target = replace(session.target, args=given)
    if first is not None:
        await session.debugger.add_breakpoint(first)
    await session.start()


def _arguments(session: TerminalSession, args: str) -> tuple[str, ...]:
    if args and session.target.module:
        raise DebuggerError("a saved program takes no arguments: write 'run'")
    try:
        return tuple(shlex.split(args))
    except ValueError as error:
        raise DebuggerError(f"'{args}' cannot be read as arguments: {error}") from error


async def detach(session: TerminalSession, args: str) -> None:
    _nothing("detach", args)
    await session.detach()


async def kill(session: TerminalSession, args: str) -> None:
    _nothing("kill", args)
    await session.end()


async def interrupt(session: TerminalSession, args: str) -> None:
    _nothing("interrupt", args)
    await session.signal(signal.SIGINT)


async def quit_(session: TerminalSession, args: str) -> None:
    ways = [way for way in _WAYS if args and way.startswith(args)]
    if args and not ways:
        raise DebuggerError(
            f"'{args}' is not a way to leave: write 'quit detach' or 'quit terminate'"
        )
    way = ways[0] if ways else await _way(session)
    if way == "stay":
        return
    # A script that was started here ends when the session is closed.
    if session.running and (way == "detach") != session.leaves_running:
        await (session.detach() if way == "detach" else session.end())
    session.quitting = True


async def _way(session: TerminalSession) -> str:
    """How to leave when the user has not said it."""
    if session.leaves_running:
        return "detach"
    if session.ask is None or not session.running:
        return "terminate"
    answer = await session.ask(
        f"the {session.what} is still running: [t]erminate it, [d]etach from it or [S]tay? "
    )
    ways = [way for way in _WAYS if answer and way.startswith(answer)]
    return ways[0] if ways else "stay"


def _nothing(name: str, args: str) -> None:
    if args:
        raise DebuggerError(f"'{name}' takes nothing after it, not '{args}'")


COMMANDS = (
    Command(
        "run", ("restart",), "run [ARGS…]",
        "start the script and wait until it stops or ends",
        "With ARGS it gets these arguments, from now on; otherwise those of the command line,\n"
        "opstep debug SCRIPT ARGS…\n"
        "One that runs is ended and started again, after a question; breakpoints stay.",
        run,
    ),
    Command(
        "start", (), "start [ARGS…]", "start the script and stop at its first op", "", start,
    ),
    Command(
        "interrupt", (), "interrupt",
        "give the script the Ctrl-C that the debugger keeps from it",
        "Python makes it a KeyboardInterrupt. Useful when it runs Python code and no ops.",
        interrupt,
    ),
    Command(
        "detach", (), "detach",
        "let the script go on without the debugger",
        "'opstep attach PID' comes back to it. The prompt stays, for 'run' or 'quit'.", detach,
    ),
    Command(
        "kill", ("k",), "kill",
        "end the script and keep the prompt",
        "SIGTERM first, and SIGKILL when that has not ended it in 2 s.", kill,
    ),
    Command(
        "quit", ("q", "exit"), "quit [detach | terminate]",
        "leave the debugger",
        "With 'detach' the script goes on alone, with 'terminate' it is ended. If neither is\n"
        "said, a terminal asks; without one a script that was started here is ended, and a\n"
        "process that was attached to goes on.",
        quit_,
    ),
)  # fmt: skip
