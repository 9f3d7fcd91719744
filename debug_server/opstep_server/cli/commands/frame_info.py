"""Topics of `info` about the frame in view: its place, names, line and watchpoints."""

from __future__ import annotations

import os
import re

from opstep_server import expr, values
from opstep_server.cli.commands import focus, listing_commands
from opstep_server.cli.output import descriptions
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import DataWhere, DebuggerError

_NAMES = 100


async def info_frame(session: TerminalSession, pattern: str) -> None:
    frames = session.stop[1].frames
    frame = frames[session.frame]
    session.screen.line(f"frame {session.frame} of 0 to {len(frames) - 1}", "bold")
    session.screen.line(f"  {descriptions.frame_line(frame)}", "none")
    if frame.HasField("op"):
        session.screen.line(f"  in block {frame.op.block} of {session.program().event.name}")
    if session.frame > 0:
        session.screen.line(
            f"  called  {descriptions.frame_line(frames[session.frame - 1])}", "none"
        )
    if session.frame + 1 < len(frames):
        caller = descriptions.frame_line(frames[session.frame + 1])
        session.screen.line(f"  called by  {caller}", "none")


async def info_locals(session: TerminalSession, pattern: str) -> None:
    """Python's names that expressions know in this frame."""
    names = await session.debugger.names(session.thread.id, focus.frame(session))
    rows = []
    for each in list(names.python)[:_NAMES]:
        try:
            # By var(), as the op may have a slot with that name.
            variable = expr.variable(each.variable or each.name)
            value = await focus.evaluate(session, variable, max_elements=values.SMALL)
            text = values.describe(value)
        except DebuggerError as error:
            text = f"<{error}>"
        meant = each.variable if each.variable != each.name else ""
        rows.append((f"{each.name} = {meant}" if meant else each.name, text))
    session.screen.table(rows)
    if len(names.python) > _NAMES:
        session.screen.line(f"  and {len(names.python) - _NAMES} more", "none")
    if not rows:
        session.screen.line(
            "Python has no names for variables here: 'info vars' shows those of the program"
        )


async def info_line(session: TerminalSession, pattern: str) -> None:
    match = re.fullmatch(r"(?:(.+):)?(\d+)", pattern)
    if pattern and match is None:
        raise DebuggerError(
            f"'{pattern}' is not a line: write 'info line 12' or 'info line FILE:12'"
        )
    file, line = session.line_in_view if session.stopped is not None else (session.script, 0)
    if match is not None:
        file, line = (
            listing_commands.file_of(session, match[1]) if match[1] else file,
            int(match[2]),
        )
    if not file or not line:
        raise DebuggerError("no Python line is in view: write 'info line FILE:12'")
    real = os.path.realpath(file)
    made: dict[int, list[str]] = {}
    for op in await session.debugger.ops(session.program()):
        for at in op.stack:
            if not descriptions.is_gradient(op) and os.path.realpath(at.file) == real:
                made.setdefault(at.line, []).append(f"#{op.id} {op.name}")
    where = f"line {line} of {descriptions.path(file)}"
    if line in made:
        session.screen.line(f"{where} made {', '.join(made[line])}")
        return
    later = min((each for each in made if each > line), default=0)
    next_ = f"; the next line that made some is {later}" if later else ""
    session.screen.line(f"{where} made no ops of {session.program().event.name}{next_}")


async def info_watchpoints(session: TerminalSession, pattern: str) -> None:
    states = [s for s in session.debugger.breakpoints if isinstance(s.spec.where, DataWhere)]
    for line in descriptions.breakpoint_table(states, [session.hint(state) for state in states]):
        session.screen.line(line, "bold" if line.startswith("num") else "")
    if not states:
        session.screen.line("no watchpoints: 'watch VARIABLE' sets one")
