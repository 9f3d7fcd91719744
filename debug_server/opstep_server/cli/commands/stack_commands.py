"""Commands about the stack: where, frame, up, down."""

from __future__ import annotations

import re

from opstep_server import values
from opstep_server.cli.commands import focus
from opstep_server.cli.commands.command import Command
from opstep_server.cli.output import descriptions
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import DebuggerError
from opstep_server.wire import debug_pb2 as pb

_VALUES = 20


async def where(session: TerminalSession, args: str) -> None:
    match = re.fullmatch(r"(full)?\s*(-?[1-9]\d*)?", args)
    if match is None:
        raise DebuggerError(f"'{args}' is not a number of frames: write 'where 3' or 'where full'")
    count = len(session.stop[1].frames)
    shown = int(match[2] or count)
    for index in range(count)[:shown] if shown > 0 else range(count)[shown:]:
        frame = session.stop[1].frames[index]
        mark = "*" if index == session.frame else " "
        line = descriptions.frame_line(frame)
        session.screen.line(f"{mark} {index}  {line}", "bold" if mark == "*" else "")
        if match[1] and frame.kind != pb.StackFrame.PYTHON:
            await _show_values(session, index)
    left = count - abs(shown)
    if left > 0:
        session.screen.line(f"  {left} more frame{'' if left == 1 else 's'}: 'where' shows all")


async def _show_values(session: TerminalSession, index: int) -> None:
    """Shows the inputs and outputs of the frame."""
    rows: list[tuple[str, str]] = []
    for scope in (pb.SCOPE_INPUTS, pb.SCOPE_OUTPUTS):
        page = await focus.variables(session, scope, 0, _VALUES, index)
        for named in page.variables:
            other = named.variable if named.variable != named.name else ""
            name = f"{named.name} = {other}" if other else named.name
            rows.append((name, values.describe(named.value)))
        if page.total > len(page.variables):
            rows.append(("…", f"{page.total - len(page.variables)} more"))
    session.screen.table(rows, "       ")


async def frame(session: TerminalSession, args: str) -> None:
    if args and not args.isdecimal():
        raise DebuggerError(f"'{args}' is not a frame number: see 'where'")
    _select_frame(session, int(args) if args else session.frame)


async def up(session: TerminalSession, args: str) -> None:
    last = len(session.stop[1].frames) - 1
    count = _frames(args)
    if session.frame >= last:
        raise DebuggerError(f"frame {last} is the outermost: there is none further up")
    _select_frame(session, min(session.frame + count, last))


async def down(session: TerminalSession, args: str) -> None:
    session.stop  # noqa: B018  # Raises when there are no frames.
    count = _frames(args)
    if session.frame <= 0:
        raise DebuggerError("frame 0, the op, is the innermost: there is none further down")
    _select_frame(session, max(session.frame - count, 0))


def _frames(args: str) -> int:
    if args and not (args.isdecimal() and int(args) > 0):
        raise DebuggerError(f"'{args}' is not a number of frames: write 1 or more")
    return int(args or 1)


def _select_frame(session: TerminalSession, index: int) -> None:
    _, stopped = session.stop
    last = len(stopped.frames) - 1
    if not 0 <= index <= last:
        raise DebuggerError(f"there is no frame {index}: they go from 0, the op, to {last}")
    session.frame = index
    session.walked.clear()
    focus.show(session)


COMMANDS = (
    Command(
        "where", ("w", "bt", "backtrace"), "where [full] [FRAMES]",
        "show the stack: op, calls that made it, blocks, run, Python frames",
        "The frame in view is marked with *. With a number that many of the innermost, and with\n"
        "-2 the two outermost; with 'full' also what went in and came out.", where,
    ),
    Command(
        "frame", ("f",), "frame [NUMBER]",
        "look at a frame of the stack", "Expressions and 'list' use that frame.", frame, "frame",
    ),
    Command(
        "up", ("u",), "up [FRAMES]",
        "look at the next frame outwards", "With a number, that many frames further.", up,
    ),
    Command(
        "down", ("d",), "down [FRAMES]",
        "look at the next frame inwards", "With a number, that many frames further.", down,
    ),
)  # fmt: skip
